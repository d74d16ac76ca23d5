"""Whether a figure grows: a robust slope and how surely it is known. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLOCKS = 60
"""Neighbouring values are joined to so many medians at most: they are not independent, and the
interval takes them to be."""

_Z95 = 1.96


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """How a figure went on after the time that does not count."""

    begin: float
    """Median of the first tenth."""

    end: float
    """Median of the last tenth."""

    hours: float
    per_hour: float
    """Slope by Theil and Sen: the median of the slopes between all pairs."""

    least_per_hour: float
    most_per_hour: float
    """The slope's 95 % interval, by Kendall's statistic."""

    def grows(self, *, share: float, by: float = 0.0) -> bool:
        """Tell whether it surely grows: all of its interval lies above what is allowed.

        Args:
            share: Of the figure that it may grow by in an hour.
            by: What it may grow by over the whole time, whatever the share.
        """
        allowed = max(share * self.begin, by / self.hours)
        return self.least_per_hour > allowed


def trend(at_s: Sequence[float], values: Sequence[float]) -> Trend:
    """Return how values went on, by when they were taken [s]; there are three at least."""
    times, medians = _blocks(np.asarray(at_s) / 3600), _blocks(np.asarray(values, float))
    rows, columns = np.triu_indices(len(times), 1)
    slopes = np.sort((medians[columns] - medians[rows]) / (times[columns] - times[rows]))
    low, high = _ranks(len(times))
    tenth = max(len(values) // 10, 1)
    return Trend(
        begin=float(np.median(values[:tenth])),
        end=float(np.median(values[-tenth:])),
        hours=(at_s[-1] - at_s[0]) / 3600,
        per_hour=float(np.median(slopes)),
        least_per_hour=float(slopes[low]),
        most_per_hour=float(slopes[high]),
    )


def _blocks(values: np.ndarray) -> np.ndarray:
    """Return the medians of neighbours, as many as there may be."""
    parts = np.array_split(values, min(BLOCKS, len(values)))
    return np.array([np.median(part) for part in parts])


def _ranks(count: int) -> tuple[int, int]:
    """Return where among all sorted slopes of so many points their interval begins and ends."""
    pairs = count * (count - 1) // 2
    spread = _Z95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(math.floor((pairs - spread) / 2), 0)
    return low, min(math.ceil((pairs + spread) / 2), pairs - 1)
