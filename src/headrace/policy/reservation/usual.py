"""What is usual for one host: the figure at which its prefetch keeps up."""

from __future__ import annotations

MOST_RATIO = 1e6
"""A figure may be near 0 once and usual later; what is more than this is not told apart."""


class Usual:
    """Learns one figure from iterations that went well, in O(1) memory.

    Better values are believed whenever they come: what was reached once can be reached. Worse
    ones are believed slowly, and hardly or not at all while the queue is not full, so neither a
    cold start nor congestion becomes the usual.
    """

    def __init__(
        self,
        known: float | None = None,
        *,
        less_is_better: bool,
        better: float = 0.2,
        worse: float = 0.01,
        in_need: float = 0.0,
    ) -> None:
        """Begin with a value that is known, or None.

        Args:
            known: The usual value, from an earlier run.
            less_is_better: Which way is better.
            better: Weight of a better value.
            worse: Weight of a worse one from an iteration that kept up.
            in_need: Weight of a worse one from any other.
        """
        self.value = known
        """The usual value; None until one was seen."""

        self._less_is_better = less_is_better
        self._better = better
        self._worse = worse
        self._in_need = in_need

    def observe(self, value: float, *, keeps_up: bool) -> None:
        """Take in the figure of one iteration."""
        if self.value is None:
            self.value = value
        elif (value < self.value) == self._less_is_better:
            self.value += self._better * (value - self.value)
        else:
            trust = self._worse if keeps_up else self._in_need
            self.value += trust * (value - self.value)

    def ratio(self, value: float) -> float:
        """Return a value over the usual one, at most ``MOST_RATIO``; 1 while none is known."""
        return min(value / self.value, MOST_RATIO) if self.value else 1.0
