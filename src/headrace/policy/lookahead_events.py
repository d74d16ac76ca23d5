"""What the consumer queue is told, and what it answers: plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from headrace.core.media import TierName
from headrace.core.parts import WHOLE, SamplePart


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """One sample, or one part of it, due at one step of one job."""

    job: str
    step: int
    sample: int
    epoch: int
    part: SamplePart = WHOLE


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One visit as the schedule and the index foresee it."""

    sample: int
    epoch: int
    kind: str
    cost_s: float
    """CPU to prepare it, estimated from headers [s]."""

    nbytes: int
    """Bytes of what is prepared, estimated [bytes]."""

    part: SamplePart = WHOLE

    prepare: bool = True
    """False where the job's cut ships this kind raw."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """Where a sample's bytes would be read from, and how many they are."""

    tier: TierName
    nbytes: int
    """Encoded bytes [bytes]."""


Encoded: TypeAlias = tuple[str, str, int]
"""(URL, index digest, row): names encoded bytes for all jobs that read them."""


class Plan(Protocol):
    """A job's schedule as one agent sees it. Pure: the same answer to the same question."""

    def due(self, step: int) -> Sequence[Planned]:
        """Return what this agent prepares of a step's samples, each once."""
        ...

    def foresee(self, sample: int, epoch: int, part: SamplePart = WHOLE) -> Planned:
        """Return the estimates of any sample or part, also of one that another agent prepares."""
        ...

    def recipe(self, sample: int) -> str:
        """Return what decides a prepared sample's bytes beside its number and epoch, or nothing.

        Jobs whose recipes are equal share what is prepared.
        """
        ...

    def stored(self, sample: int) -> Stored:
        """Return where a sample would be read now: may change with time.

        Asked only for jobs that have a quota.
        """
        ...

    def unkept(self, sample: int) -> Encoded | None:
        """Return what names a sample's encoded bytes, if reading them may leave a copy.

        None where there is a copy now, or none is ever kept. May change with time.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanged:
    """A job is new, or its world, cuts, mode or start changed."""

    job: str
    plan: Plan
    start_step: int
    step_time_s: float | None = None
    raw_only: str = ""
    """Why nothing may be transformed for this job; empty when it may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChanged:
    """Samples fall to other agents from now on; the job's progress stays."""

    job: str
    plan: Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeChanged:
    """A job may be transformed from now on, or no longer; its progress stays."""

    job: str
    raw_only: str
    """Why nothing may be transformed; empty when it may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRemoved:
    """Nothing more will be asked for this job."""

    job: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A client wants samples, and says how far its training loop is."""

    request: int
    """Names the request in the answers."""

    job: str
    step: int
    rank: int
    world: int
    samples: Sequence[int]
    epochs: Sequence[int]
    consumed_step: int
    step_time_s: float
    """0 when not yet measured."""

    wait_s: float
    raw: bool = False
    """The client wants encoded bytes whatever lies ready."""

    parts: Sequence[SamplePart] = ()
    """Which part of each of ``samples`` is wanted; empty: all are wanted as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskCancelled:
    """The client of a request went away."""

    request: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A task left its result in memory."""

    ticket: int
    nbytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A task found that the sample cannot be made, here or anywhere."""

    ticket: int
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Crashed:
    """A task took its worker down, or was stopped at its limits."""

    ticket: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GrowAsked:
    """A running task's result is larger than what was reserved."""

    ticket: int
    nbytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """A served result has left for one request."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardDecided:
    """The CPU guard's word: how many tasks may run, and whether any may start."""

    workers: int
    transform: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotasChanged:
    """Every job's bandwidth from now on, of all tiers; who is not named is not limited."""

    quotas: Mapping[str, Mapping[TierName, float]]
    """Job → tier → bandwidth [B/s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadAsked:
    """Somebody wants to read for a job besides its tasks, as soon as the quota has it."""

    read: int
    """Names the read in the answer."""

    job: str
    tier: TierName
    nbytes: int
    step: int
    """The step that it is for: earlier ones come first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadWithdrawn:
    """Nobody wants that read any more."""

    read: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RawReadBegan:
    """A sample is being read for an answer of raw bytes, and a copy is left of it."""

    read: int
    """Negative: names the read among tasks."""

    encoded: Encoded


@dataclass(frozen=True, kw_only=True, slots=True)
class RawReadEnded:
    """A read for raw bytes has ended; it may never have been told of."""

    read: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchBegan:
    """These visits' bytes are brought nearer, many by one read: none is to be read by itself.

    Those that were started or asked for in the meantime are left as they are.
    """

    job: str
    visits: Sequence[Visit]


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchEnded:
    """These visits may be started again, wherever their bytes are by now."""

    job: str
    visits: Sequence[Visit]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Only time has passed."""


Event: TypeAlias = (
    JobChanged
    | PlanChanged
    | ModeChanged
    | JobRemoved
    | Asked
    | AskCancelled
    | Finished
    | Broken
    | Crashed
    | GrowAsked
    | Sent
    | GuardDecided
    | QuotasChanged
    | ReadAsked
    | ReadWithdrawn
    | RawReadBegan
    | RawReadEnded
    | FetchBegan
    | FetchEnded
    | Tick
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Run a task now; ``nbytes`` of memory are reserved under its ticket."""

    ticket: int
    visit: Visit
    nbytes: int
    throttled_s: float = 0.0
    """How long it was next in turn and its job's quota held it back [s]."""

    bundle: int
    """Ticket of the first of the tasks that one worker makes, in the order of these actions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grow:
    """The ticket's memory is ``nbytes`` now."""

    ticket: int
    nbytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Refuse:
    """The ticket's memory cannot grow: give the task up; its memory is free."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drop:
    """Free a finished ticket's memory: nobody needs it any more."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What ``ReadAsked`` named may be read now, and is paid for."""

    read: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Serve:
    """Send a finished ticket to a request, then report ``Sent``."""

    request: int
    visit: Visit
    ticket: int
    ready: bool
    """It lay ready when it was asked for."""

    shared: bool
    """It was made for another job: nothing was read for this one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeRaw:
    """Send the encoded bytes to a request."""

    request: int
    visit: Visit
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeMissing:
    """Tell a request that the sample cannot be made."""

    request: int
    visit: Visit
    code: str
    reason: str


Action: TypeAlias = Start | Grow | Refuse | Drop | Read | Serve | ServeRaw | ServeMissing
