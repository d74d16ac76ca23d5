"""Bytes per second from amounts that come with the time they took: pure."""

from __future__ import annotations

import math

MEMORY_S = 5.0
"""Time constant of the average [s]: long beside a report's interval, short beside a loan."""


class Rate:
    """An average rate that forgets exponentially, whatever the intervals are."""

    __slots__ = ("bytes_per_s",)

    def __init__(self) -> None:
        self.bytes_per_s = 0.0

    def add(self, nbytes: float, interval_s: float) -> None:
        """Take in what was read within the last ``interval_s`` (> 0)."""
        kept = math.exp(-interval_s / MEMORY_S)
        self.bytes_per_s = kept * self.bytes_per_s + (1.0 - kept) * nbytes / interval_s
