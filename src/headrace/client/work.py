"""One step in the making: what is asked of whom, what came, what is made here. Plain state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.client.assembly import Assembly, Visit
from headrace.client.batch import Batch, Replaced
from headrace.client.costs import Costs
from headrace.client.counts import Counts
from headrace.client.crew import Crew
from headrace.client.fleet import Fleet
from headrace.client.headstart import HeadStart
from headrace.client.held import Held
from headrace.client.maker import Maker
from headrace.client.pace import Pace, Patience
from headrace.client.parts import PartsInHand
from headrace.client.shares import Piece, Share
from headrace.client.splitting import Splitting, StepTally
from headrace.client.spotcheck import SpotChecks
from headrace.client.stepdetail import StepDetail, StepDetails
from headrace.client.tail import Tail
from headrace.prepare.job import OpenJob
from headrace.wire.connection import Answer, Connection

PieceName: TypeAlias = tuple[int, int, int]
"""(sample, epoch, number of the part): names a piece inside one step."""


def name_of(piece: Piece) -> PieceName:
    """Return a piece's name inside its step."""
    return (*piece.visit, piece.part.number)


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """What all gatherers of one loader share."""

    job: OpenJob
    targets: Mapping[str, int]
    """Media kind → cut at which a batch takes its samples."""

    part_cuts: Mapping[str, int]
    """Media kind → cut up to which samples are made in parts, where they are divided."""

    rank: int
    world: int
    fleet: Fleet
    crew: Crew
    early: HeadStart | None
    """None: no sample is heavy."""

    maker: Maker
    pace: Pace
    patience: Patience
    costs: Costs
    checks: SpotChecks
    splitting: Splitting
    tail: Tail
    held: Held
    details: StepDetails
    timeout_s: float
    """Longest time that one step may take, beside what the job's quota holds it back [s]."""

    closed: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Gathered:
    """One step, ready to be handed over."""

    batch: Batch
    counts: Counts
    begin: float
    """When the first sample was asked for, monotonic [s]."""

    seconds: float
    """Time from the first request to the finished batch [s]."""

    peak_bytes: int
    """Memory held while it was put together [bytes]."""

    is_detailed: bool = False
    """Whether its requests were recorded one by one."""


@dataclass(slots=True)
class Call:
    """One request to one agent, while its answer is being read."""

    share: Share
    connection: Connection
    owed: dict[PieceName, Piece]
    """Asked for and not yet answered."""

    hedge_at: float
    """When what is still owed is made here; infinite: it is being made."""

    urgent: list[tuple[float, PieceName]]
    """Pieces that are made here earlier, because they take long, and when: the latest in front."""

    asked_at: float
    answer: Answer | None = None
    frames: int = 0
    nbytes: int = 0
    """Received of samples [bytes]."""

    queued_s: float = 0.0
    """Longest that one of its samples waited in the agent [s]."""

    link_s: float = 0.0
    """Longest that one of them was on its way [s]."""

    @property
    def next_hedge_at(self) -> float:
        """When something that is owed is to be made here, if it does not come before."""
        return min(self.hedge_at, self.urgent[-1][0]) if self.urgent else self.hedge_at


@dataclass(slots=True)
class Work:
    """One step in the making."""

    step: int
    epoch: int
    assembly: Assembly
    begin: float
    begin_cpu: float
    hedge_at: float
    """When agents have had the time that they get."""

    lengths: Mapping[int, int]
    """Sample → its stored bytes."""

    detail: StepDetail | None
    costs: dict[Visit, float] = field(default_factory=dict)
    """What each sample, or each of its parts, is foreseen to take [s]."""

    counts: Counts = field(default_factory=Counts)
    tally: StepTally = field(default_factory=StepTally)
    calls: list[Call] = field(default_factory=list)
    local: dict[Visit, str] = field(default_factory=dict)
    """Handed to the decoding threads as a whole, and how it is to be counted."""

    parts: dict[Visit, PartsInHand] = field(default_factory=dict)
    """Samples that are made in parts."""

    replaced: list[Replaced] = field(default_factory=list)
