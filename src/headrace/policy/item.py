"""What becomes of a visit, and of the task that makes its sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headrace.core.parts import SamplePart
from headrace.policy.lookahead_events import Planned, Visit

Content: TypeAlias = tuple[str, int, int, SamplePart]
"""(recipe, sample, epoch, part): decides the bytes that are prepared, whatever job they are for."""

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
    """What one task makes, for one visit or several: memory until the last of them has had it."""

    ticket: int
    visit: Visit
    """The visit that it was started for."""

    content: Content | None
    nbytes: int
    """Bytes reserved, or held once it is made [bytes]."""

    started: float
    """When its turn in its bundle comes, by the estimate [s]."""

    cost_s: float
    bundle: int
    """Ticket of the first task that its worker was given with it."""

    jobs: tuple[str, ...]
    """Whose memory it is, in equal parts."""

    items: list[Item] = field(default_factory=list)
    """The visits that still need it."""

    sending: int = 0
    """Requests to which it is on its way."""

    served: bool = False
    """It was sent, or is being sent, at least once."""

    def remaining_s(self, now: float) -> float:
        """Return how long until it is made, by the estimate [s]."""
        return max(0.0, self.started + self.cost_s - now)


@dataclass(slots=True, eq=False)
class Item:
    """One visit and what has become of it."""

    visit: Visit
    planned: Planned
    cost_s: float
    state: State = "planned"
    result: Result | None = None
    """Set while it is ``running`` or ``ready``."""

    held_before_s: float | None = None
    """How long its job's quota had held samples back when this one began to wait for it: because
    it was next in turn, or because it is behind one and a request waits for it [s]."""

    crashes: int = 0
    code: str = ""
    reason: str = ""
    abandoned: bool = False
    """Nobody will want the result of the task that runs."""

    waiters: list[Waiter] = field(default_factory=list)

    @property
    def is_unstarted(self) -> bool:
        """Whether it is foreseen, and no task makes it or has made it."""
        return self.state in ("planned", "fetching")

    @property
    def lead_s(self) -> float:
        """How long before its sample is due it has to start [s].

        Parts start as if one worker made them one after another: how many will be free is not
        known, and were all to start at once they would keep light samples waiting.
        """
        return self.cost_s * (self.visit.part.count - self.visit.part.number)

    @property
    def urgency(self) -> float:
        """Latest start of a sample that is waited for [s]."""
        return min(waiter.expiry for waiter in self.waiters) - self.cost_s
