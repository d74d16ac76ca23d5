"""Time as a parameter: the real clock at the rim, a manual one in tests and simulations.

``SystemClock`` is the only place in ``core`` that reads a clock; ``policy`` and
``schedule`` are handed the time as a number and never hold a clock at all.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds since an arbitrary origin."""

    def now(self) -> float:
        """Return the current time [s]."""
        ...


class SystemClock:
    """The machine's monotonic clock, shared by all processes of one host."""

    def now(self) -> float:
        """Return ``time.monotonic()`` [s]."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return the time last set [s]."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by ``seconds`` (>= 0)."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now += seconds
