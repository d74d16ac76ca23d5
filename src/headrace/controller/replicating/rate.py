"""How fast a count grows, over the last seconds."""

from __future__ import annotations

from collections import deque

WINDOW_S = 5.0
"""The rate is the mean over this time [s]."""

_APART_S = 0.1
"""Samples are kept this far apart [s]."""


class GrowthRate:
    """Mean growth of a count over the last seconds. Not thread-safe; time is a parameter."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self, count: int, now: float) -> None:
        """Take note of the count as it is now; more often than is of use costs nothing."""
        if len(self._samples) > 1 and now - self._samples[-2][0] < _APART_S:
            self._samples.pop()
        self._samples.append((now, count))
        while now - self._samples[0][0] > WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()

    @property
    def per_s(self) -> float:
        """Growth per second; 0 before two samples."""
        if len(self._samples) < 2:
            return 0.0
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return max(0.0, (last - first) / max(ended - began, 1e-6))
