"""Time as it passes for this process: it stands still while the process is stopped. No threads."""

from __future__ import annotations

from headrace.core.clock import Clock


class WakingClock:
    """Monotonic time that advances by at most so much between two looks.

    Who looks several times a second and then not for a minute was stopped, or had no CPU. It
    heard nobody meanwhile, and must not take that minute for others' silence.

    Args:
        clock: Time that never stands still.
        most_s: Longest time that counts between two looks [s].
    """

    def __init__(self, clock: Clock, *, most_s: float) -> None:
        self._clock = clock
        self._most_s = most_s
        self._looked = self._now = clock.now()

    def now(self) -> float:
        """Return the current time [s]."""
        looked = self._clock.now()
        self._now += min(looked - self._looked, self._most_s)
        self._looked = looked
        return self._now
