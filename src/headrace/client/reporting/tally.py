"""Collects what a host's ranks say until it is time to report for all of them: pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.client.reporting.figures import Figures, later, together

PATIENCE_S = 0.5
"""Longest that a report waits for ranks that have not spoken yet [s]."""

FORGOTTEN_S = 60.0
"""A rank that is silent for so long is not waited for any more [s]."""


@dataclass(frozen=True, slots=True)
class Sum:
    """All ranks' figures as one."""

    figures: Figures
    ranks: int
    """Ranks that it holds."""


class Tally:
    """One host's ranks. Time is a parameter; not thread-safe."""

    def __init__(self, expected: int = 1) -> None:
        self.expected = expected
        """Ranks that the next report waits for, whether or not they were heard of."""

        self.delay_s = 0.0
        """Every report waits for so long, so that not all hosts of a job speak at once [s]."""

        self._said: dict[str, Figures] = {}
        self._heard_at: dict[str, float] = {}
        self._since: float | None = None

    @property
    def ranks(self) -> int:
        """Ranks that were heard of lately."""
        return len(self._heard_at)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._heard_at)

    def add(self, rank: str, figures: Figures, now: float) -> None:
        """Take what a rank says; if it spoke since the last report already, both count."""
        self._said[rank] = later(self._said.get(rank), figures)
        self._heard_at[rank] = now
        self._since = now if self._since is None else self._since

    def remove(self, rank: str) -> None:
        """Forget a rank that said goodbye or cannot be reached; what it said still counts."""
        self._heard_at.pop(rank, None)

    def due_in(self, now: float) -> float | None:
        """Return the time until a report is due [s]; None while nobody has spoken."""
        if self._since is None:
            return None
        is_whole = len(self._said) >= self.expected and self._said.keys() >= self._heard_at.keys()
        wait_s = self.delay_s if is_whole else max(self.delay_s, PATIENCE_S)
        return max(0.0, self._since + wait_s - now)

    def take(self, now: float) -> Sum:
        """Return what was said since the last report, and begin anew."""
        total = Sum(together(self._said.values()), len(self._said))
        self._said.clear()
        self._since, self.expected = None, 1
        for rank, at in list(self._heard_at.items()):
            if now - at > FORGOTTEN_S:
                del self._heard_at[rank]
        return total
