"""What the arbiter of bandwidth is told, and what it answers: plain values, no behaviour.

All amounts are of the whole estate: dividing a job's quota over agents and hosts is done by
whoever carries the actions out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headrace.core.media import Media, TierName

Level = Literal["healthy", "tight", "danger", "critical"]
"""By score: 60 and above, below 60, below 40, below 20."""

Mode = Literal["none", "cold-start", "thrash", "congestion", "transform-bound"]
"""Why a job's prefetch is in need, as far as its own indicators tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Indicators:
    """One host's prefetch at the end of one iteration (row B1, and what diagnosis needs)."""

    iteration: int
    """Iterations since the run began, from 0."""

    step_time_s: float
    """Time of one step without waiting for data, smoothed [s]."""

    wait_s: float
    """How long training stood still for this iteration's batch [s]."""

    queue_depth: float
    """Batches that lay ready when this one was asked for."""

    queue_capacity: float
    """Batches that may lie ready."""

    io_latency_s: float
    """Mean completion latency of the last I/Os, waiting in queues included [s]."""

    io_latency_cv: float
    """Its coefficient of variation (standard deviation over mean)."""

    next_bytes: float
    """Estimated stored bytes of the next batch that does not lie ready, over all tiers [bytes]."""

    upcoming_bytes: tuple[float, ...] = ()
    """Stored bytes of the batches after it, from the schedule, as far as they are known."""

    queue_share: float = 0.0
    """Part of an I/O's time that it waited in queues for what others use too (a device, a link),
    0 to 1; waiting for its own job's quota is not part of it."""

    throttled_share: float = 0.0
    """Part of an I/O's time that it waited for its own job's quota, 0 to 1."""

    hit_rate: float = 1.0
    """Part of the bytes that the fast tier's cache held, 0 to 1."""

    split: Mapping[TierName, float] = field(default_factory=dict)
    """Tier → part of the bytes read from it; storage tiers sum to 1 where anything was read.
    Link → bytes that cross it per byte read: above 1 where they grow by being decoded."""

    transform_share: float = 0.0
    """Part of a batch's preparation that was work of the CPU, not reading, 0 to 1."""

    nic_bytes_per_s: float = 0.0
    """Received by the host from storage [B/s]."""

    read_bytes_per_s: float = 0.0
    """Read for the job through this host since the report before, over all tiers [B/s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TierChanged:
    """A tier's bandwidth is known, or is another one now; 0 removes the tier."""

    tier: TierName
    media: Media
    bytes_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class JobJoined:
    """A job is new, or asks for another weight or guarantee."""

    job: str
    data_path: str = ""
    """What its runs have in common, if each has a name of its own: what is learnt of one is used
    for the next."""

    weight: float = 1.0
    """Its part of contended bandwidth, relative to other jobs'."""

    guaranteed: Mapping[TierName, float] = field(default_factory=dict)
    """Bandwidth that it keeps whatever others ask for [B/s]; what is not named: none of its own
    beyond the estate's floor."""

    quotas: Mapping[TierName, float] = field(default_factory=dict)
    """Quotas in force already, after a restart of the controller [B/s]."""

    hosts: int = 1
    """Hosts that report."""

    step_time_s: float = 0.0
    """Expected time of one step [s]; 0 when not known."""

    begins_in_s: float = 0.0
    """Time until the first step asks for its batch [s]; preparing begins now."""

    upcoming_bytes: tuple[float, ...] = ()
    """Stored bytes of its first batches, over all hosts, from the schedule [bytes]."""

    split: Mapping[TierName, float] = field(default_factory=dict)
    """Where its first bytes are expected to be read; empty: not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLeft:
    """A job ended, or was not heard of for long: its loans end with it."""

    job: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthReported:
    """One host of a job ended an iteration."""

    job: str
    host: str
    indicators: Indicators


@dataclass(frozen=True, kw_only=True, slots=True)
class BurstAnnounced:
    """A job is about to write or read a checkpoint on a tier."""

    job: str
    burst: str
    """Names it; announcing it again replaces it."""

    tier: TierName
    nbytes: float
    """Left to be moved [bytes]."""

    deadline_s: float
    """Time until it should be done [s]."""

    urgent: bool = False
    """Served before data reads of healthy jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BurstEnded:
    """A checkpoint was moved, or given up."""

    job: str
    burst: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Only time has passed."""


Event: TypeAlias = (
    TierChanged | JobJoined | JobLeft | HealthReported | BurstAnnounced | BurstEnded | Tick
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SetQuota:
    """A job's bandwidth on a tier from now on, loans included."""

    job: str
    tier: TierName
    bytes_per_s: float
    reason: str
    asked: float = 0.0
    """What the job's need was reckoned at; more than it got where others needed it too [B/s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SetBurstRate:
    """The bandwidth of a checkpoint burst from now on."""

    job: str
    burst: str
    tier: TierName
    bytes_per_s: float
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lend:
    """A loan from a tier's elastic pool begins; its bandwidth is part of the job's quota."""

    loan: int
    """Names it in the ledger."""

    job: str
    tier: TierName
    bytes_per_s: float
    iterations: int
    """Iterations of the job until it is reclaimed."""

    expires_in_s: float
    """Time after which it is reclaimed even if the job reports nothing more [s]."""

    score: float
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reclaim:
    """A loan ends."""

    loan: int
    job: str
    tier: TierName
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refuse:
    """A job in need was not lent anything."""

    job: str
    tier: TierName
    score: float
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetReordering:
    """Agents merge a job's upcoming reads into sequential runs on the fast tier, or stop that."""

    job: str
    enabled: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosed:
    """A job's health and its cause changed."""

    job: str
    score: float
    level: Level
    mode: Mode
    reason: str


Action: TypeAlias = SetQuota | SetBurstRate | Lend | Reclaim | Refuse | SetReordering | Diagnosed
