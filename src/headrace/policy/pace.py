"""Where a training loop is and when it will want a later step."""

from __future__ import annotations


class Pace:
    """Progress of one job, told by its ranks.

    Ranks train in lockstep, so the furthest one sets the deadlines. The slowest one decides
    what is over, one that was not heard yet counts as being at the start; a rank that went
    silent holds nothing back by more than ``max_skew`` steps.
    """

    def __init__(self, *, start_step: int, step_time_s: float, max_skew: int) -> None:
        self.step_time_s = step_time_s
        self.reached = start_step - 1
        """Step the furthest rank works on."""

        self.over = start_step - 1
        """Steps up to here will not be asked for again."""

        self._start = start_step - 1
        self._since: float | None = None
        self._ranks: dict[int, int] = {}
        self._max_skew = max_skew

    @property
    def is_moving(self) -> bool:
        """Whether any rank has started to train."""
        return self._since is not None

    def report(
        self, *, rank: int, world: int, consumed_step: int, step_time_s: float, now: float
    ) -> None:
        """Take in what one rank said with a fetch; going back (a resumed job) is allowed."""
        self._ranks = {other: at for other, at in self._ranks.items() if other < world}
        self._ranks[rank] = consumed_step
        if step_time_s > 0:
            self.step_time_s = step_time_s
        reached = max(self._ranks.values())
        if reached != self.reached:
            self.reached, self._since = reached, now
        slowest = min(self._ranks.values())
        if len(self._ranks) < world:
            slowest = min(slowest, self._start)
        self.over = max(slowest, reached - self._max_skew)

    def deadline(self, step: int, now: float) -> float:
        """Return when a step's samples will be consumed; slides while the loop stands still."""
        since = now if self._since is None else self._since
        following = max(now, since + self.step_time_s)
        return following + (step - self.reached - 1) * self.step_time_s
