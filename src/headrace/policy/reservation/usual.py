"""What is usual for one host: the figure at which its prefetch keeps up."""

from __future__ import annotations

MOST_RATIO = 1e6
"""A figure may be near 0 once and usual later; what is more than this is not told apart."""


class Usual:
    """Learns one figure from iterations that went well, in O(1) memory.

    Better values are believed quickly, whenever they come: what was reached once can be
    reached. Worse ones are believed slowly, and only from iterations whose queue was full, so
    neither a cold start nor congestion, however long, becomes the usual.
    """

    _BETTER = 0.2
    _WORSE = 0.01

    def __init__(self, known: float | None = None, *, less_is_better: bool) -> None:
        self.value = known
        """The usual value; None until one was seen."""

        self._less_is_better = less_is_better

    def observe(self, value: float, *, keeps_up: bool) -> None:
        """Take in the figure of one iteration."""
        if self.value is None:
            self.value = value
        elif (value < self.value) == self._less_is_better:
            self.value += self._BETTER * (value - self.value)
        elif keeps_up:
            self.value += self._WORSE * (value - self.value)

    def ratio(self, value: float) -> float:
        """Return a value over the usual one, at most ``MOST_RATIO``; 1 while none is known."""
        return min(value / self.value, MOST_RATIO) if self.value else 1.0
