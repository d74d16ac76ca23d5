"""How long to wait before what failed is tried again. No clock: whoever asks does the waiting."""

from __future__ import annotations

import random


class Backoff:
    """Pauses that double up to a longest one, each shortened by chance, by up to half.

    Chance keeps many that lost the same service at once from coming back all at once.

    Args:
        first_s: Longest pause after the first failure [s].
        longest_s: Longest pause of all [s].
    """

    def __init__(self, *, first_s: float, longest_s: float) -> None:
        self.failures = 0
        """In a row, up to now."""

        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def failed(self) -> float:
        """Return the time to wait after another failure in a row [s]."""
        self.failures += 1
        pause_s = min(self._next_s, self._longest_s)
        self._next_s = 2.0 * pause_s
        return pause_s * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        """Begin anew: the next failure is the first of its row."""
        self.failures, self._next_s = 0, self._first_s
