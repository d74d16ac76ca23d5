"""How a quantity is spread: exact for few distinct values, in narrow bins for many.

A bin is 1 % wide, and a value stands for all of its bin, so that quantiles err by 0.5 % at most.
"""

from __future__ import annotations

import math

import numpy as np

from headrace.analysis.columns import Floats, Ints
from headrace.analysis.figures import Spread

NS_PER_S = 1e9

MOST_EXACT = 65_536
"""Distinct values up to which quantiles are exact."""

ACCURACY = 0.005
"""Largest relative error of a quantile beyond that."""

SHARES = tuple(percent / 100 for percent in range(101))
"""At which a curve of cumulative shares is told."""

_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA = math.log(_GAMMA)
_BINS = math.ceil(63 * math.log(2) / _LOG_GAMMA) + 2
"""The first is for 0, the others for 1 to 2^63."""


class SpreadSketch:
    """Takes in numbers that are 0 or whole and positive, each with how often it came."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._most = 0.0
        self._values: Floats = np.empty(0)
        self._times: Ints = np.empty(0, np.int64)
        self._pending: list[tuple[Floats, Ints]] = []
        self._pending_values = 0
        self._binned: Ints | None = None

    def add(self, values: Floats | Ints, times: Ints | None = None) -> None:
        """Take in values, each ``times`` times."""
        values = values.astype(np.float64)
        times = np.ones(values.size, np.int64) if times is None else times
        if not values.size or not times.any():
            return
        self.count += int(times.sum())
        self.total += float((values * times).sum())
        self._most = max(self._most, float(values.max()))
        self._take(values, times)

    def merge(self, other: SpreadSketch) -> None:
        """Take in all that another one took in."""
        other._settle()
        self.count += other.count
        self.total += other.total
        self._most = max(self._most, other._most)
        if other._binned is None:
            self._take(other._values, other._times)
        else:
            self._take(_bin_values(), other._binned)
            self._settle()
            self._to_bins()

    def result(self, unit: float = 1.0, *, curve: bool = False) -> Spread | None:
        """Return the figures, in a unit; None where nothing was taken in.

        Args:
            unit: What a value is divided by, such as 1e9 from ns to s.
            curve: Tell the curve of cumulative shares as well.
        """
        if not self.count:
            return None
        p50, p90, p99, *points = (self.quantiles((0.5, 0.9, 0.99, *SHARES)) / unit).tolist()
        return Spread(
            count=self.count,
            total=self.total / unit,
            mean=self.total / self.count / unit,
            p50=p50,
            p90=p90,
            p99=p99,
            most=self._most / unit,
            curve=tuple(points) if curve else (),
        )

    def quantiles(self, shares: tuple[float, ...]) -> Floats:
        """Return the values at shares of the count, 0 to 1, interpolated linearly."""
        values, times = self.weighted()
        until = np.cumsum(times)
        place = np.asarray(shares) * (self.count - 1)
        below = np.floor(place)
        last = values.size - 1
        lower = values[np.searchsorted(until, below, side="right").clip(max=last)]
        upper = values[np.searchsorted(until, np.ceil(place), side="right").clip(max=last)]
        quantiles: Floats = lower + (upper - lower) * (place - below)
        return quantiles

    @property
    def width(self) -> float:
        """Return how far a value may be off, relative to it: 0 while they are exact."""
        self._settle()
        return 0.0 if self._binned is None else ACCURACY

    def weighted(self) -> tuple[Floats, Ints]:
        """Return the values, rising, as exact as they are kept, and how often each came."""
        self._settle()
        if self._binned is None:
            return self._values, self._times
        used = np.flatnonzero(self._binned)
        return np.minimum(_bin_values()[used], self._most), self._binned[used]

    def _take(self, values: Floats, times: Ints) -> None:
        if self._binned is not None:
            self._binned += _binned(values, times)
            return
        self._pending.append((values, times))
        self._pending_values += values.size
        if self._pending_values >= MOST_EXACT:
            self._settle()

    def _settle(self) -> None:
        """Bring together what came since; go over to bins where it is too much."""
        if not self._pending:
            return
        values = np.concatenate([self._values, *(one for one, _ in self._pending)])
        times = np.concatenate([self._times, *(one for _, one in self._pending)])
        self._pending.clear()
        self._pending_values = 0
        self._values, place = np.unique(values, return_inverse=True)
        self._times = np.bincount(place, weights=times).astype(np.int64)
        if self._values.size > MOST_EXACT:
            self._to_bins()

    def _to_bins(self) -> None:
        if self._binned is None:
            self._binned = _binned(self._values, self._times)
            self._values, self._times = np.empty(0), np.empty(0, np.int64)


def _binned(values: Floats, times: Ints) -> Ints:
    bins = np.ceil(np.log(np.maximum(values, 1.0)) / _LOG_GAMMA).astype(np.int64) + 1
    bins[values == 0] = 0
    return np.bincount(bins, weights=times, minlength=_BINS).astype(np.int64)


def _bin_values() -> Floats:
    """Return what a bin's values are taken for."""
    exponents = np.arange(-1, _BINS - 1, dtype=np.float64)
    values: Floats = 2 * np.power(_GAMMA, exponents) / (_GAMMA + 1)
    values[:2] = 0.0, 1.0
    return values
