"""Tells waiting for the job's own quota from waiting for something that is broken."""

from __future__ import annotations

import math
import time

SIGN_S = 0.25
"""While the quota holds something back, a sign of it comes at least this often [s]."""


class Held:
    """When the job's quota held a sample of this loader back last. Thread-safe.

    Agents tell so while it does, and the limiter of direct reads does. Nothing that is broken
    gives a sign, so a deadline that counts from the last one still ends every other wait.
    """

    def __init__(self) -> None:
        self._at = -math.inf

    def note(self) -> None:
        """Leave word that the quota, and nothing else, holds a sample back now."""
        self._at = time.monotonic()

    def is_on(self) -> bool:
        """Return whether the quota holds something back now, or did a moment ago."""
        return time.monotonic() - self._at < 2 * SIGN_S

    def deadline(self, begin: float, longest_s: float) -> float:
        """Return when a wait is over that may take ``longest_s`` where no quota holds it up.

        Args:
            begin: When the wait began, as ``time.monotonic`` tells it [s].
            longest_s: Longest time without a sign of the quota [s].
        """
        return max(begin, self._at) + longest_s
