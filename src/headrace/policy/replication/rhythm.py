"""Learns how often something recurs, from when it happened."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

_REMEMBERED = 16
"""Intervals that the estimate is from: a change of rhythm shows after half of them."""


class Rhythm:
    """Median interval: a restart's long gap, or two saves one right after the other, move nothing.

    Args:
        told_s: The period, where it is known [s]; nothing is learned then.
    """

    def __init__(self, told_s: float | None = None) -> None:
        self._told_s = told_s
        self._last = -math.inf
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def period_s(self) -> float | None:
        """Time from one to the next [s]; None: it happened less than twice."""
        if self._told_s is not None:
            return self._told_s
        return median(self._intervals) if self._intervals else None

    def happened(self, at: float) -> None:
        """Take note that it happened [s, monotonic]; an earlier time than the last is ignored."""
        if self._last < at and self._last > -math.inf:
            self._intervals.append(at - self._last)
        self._last = max(self._last, at)

    def next_after(self, at: float) -> float | None:
        """Return the first moment of the rhythm after ``at``, which may be past [s].

        None: nothing is known.
        """
        period_s = self.period_s
        if period_s is None:
            return None
        if self._last == -math.inf:
            return at + period_s
        return self._last + period_s * (math.floor((at - self._last) / period_s) + 1)
