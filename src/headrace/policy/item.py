"""What becomes of a visit, and of the task that makes its sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headrace.policy.lookahead_events import Planned, Visit

State = Literal["planned", "fetching", "running", "ready", "missing"]
"""``fetching``: not to be started before its bytes are nearer."""


@dataclass(slots=True)
class Waiter:
    """One request that waits for one sample."""

    request: int
    expiry: float
    """When its raw bytes are sent instead."""


@dataclass(slots=True, eq=False)
class Result:
    """What one task makes: memory from its start until it was sent or is not wanted."""

    ticket: int
    item: Item
    nbytes: int
    """Bytes reserved, or held once it is made [bytes]."""

    started: float

    @property
    def job(self) -> str:
        """The job whose memory it is."""
        return self.item.visit.job

    def remaining_s(self, now: float) -> float:
        """Return how long until it is made, by the estimate [s]."""
        return max(0.0, self.started + self.item.cost_s - now)


@dataclass(slots=True)
class Item:
    """One visit and what has become of it."""

    visit: Visit
    planned: Planned
    cost_s: float
    state: State = "planned"
    result: Result | None = None
    """Set while it is ``running`` or ``ready``."""

    held_since: float | None = None
    """When it was next in turn and its job's quota held it back first [s]."""

    crashes: int = 0
    code: str = ""
    reason: str = ""
    abandoned: bool = False
    """Nobody will want the result of the task that runs."""

    waiters: list[Waiter] = field(default_factory=list)

    @property
    def urgency(self) -> float:
        """Latest start of a sample that is waited for [s]."""
        return min(waiter.expiry for waiter in self.waiters) - self.cost_s
