"""What the controller tells people and tools of the estate: answers of its ``GET`` routes.

Unlike what agents and hosts are answered, amounts here are of the whole estate. Times are
seconds since 1970 where they end in ``_at``, ages and durations otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.media import Media
from headrace.wire.hotspots import HotspotView

EntryKind = Literal["loan", "refusal"]
DecisionKind = Literal["quota", "diagnosis", "reordering", "burst", "reconciled"]


class TierShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has of one tier."""

    asked_bytes_per_s: float = 0.0
    """What its need is reckoned at; 0 while nothing is known of it [B/s]."""

    granted_bytes_per_s: float = 0.0
    """Its quota, loans included [B/s]."""

    lent_bytes_per_s: float = 0.0
    """The part of the quota that is lent from the pool [B/s]."""

    enforced_bytes_per_s: float = 0.0
    """What the agents say is in force, summed [B/s]; hosts' own reads are not in it."""

    used_bytes_per_s: float = 0.0
    """Read lately, through agents and by hosts themselves [B/s]."""

    reason: str = ""
    """Why the quota is what it is."""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One loan from the elastic pool, or one refusal of it."""

    entry: int
    """Numbers the ledger's entries; later ones are larger."""

    kind: EntryKind
    job: str
    tier: str
    began_at: float
    """When it was lent, or first refused [s since 1970]."""

    score: float
    """The job's health then, 0 to 100."""

    reason: str
    title: str = ""
    """What the job was called then; empty if it had no title."""

    loan: int | None = None
    """The arbiter's number of the loan; of a refusal: none."""

    bytes_per_s: float = 0.0
    iteration: int = 0
    """Iterations that the job had done then."""

    iterations: int = 0
    """Iterations of the job until it is reclaimed."""

    expires_at: float | None = None
    """When it is reclaimed even if the job reports nothing more [s since 1970]."""

    expires_in_s: float | None = None
    """The same from now on [s]; none once it ended."""

    ended_at: float | None = None
    """When it was reclaimed, or last refused for this reason [s since 1970]; none: it is open."""

    end_reason: str = ""
    times: int = 1
    """How often in a row it was refused for this reason."""

    @property
    def is_open(self) -> bool:
        """Whether it is a loan that has not ended."""
        return self.kind == "loan" and self.ended_at is None


class BurstView(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that is being moved."""

    burst: str
    tier: str
    nbytes: int
    bytes_per_s: float
    urgent: bool
    deadline_in_s: float
    reason: str


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """One job, in its worst host's figures where hosts differ."""

    job: str
    title: str
    weight: float
    world: int
    hosts: int
    """Hosts that it was announced with."""

    hosts_reporting: int
    """Hosts that were heard of."""

    score: float
    level: str
    mode: str
    reason: str
    """What is wrong, in words; empty while nothing is."""

    iteration: int
    step: int
    step_time_s: float
    wait_s: float
    queue_depth: float
    queue_capacity: float
    hit_rate: float
    read_bytes_per_s: float
    tiers: dict[str, TierShare]
    loans: tuple[LedgerEntry, ...] = ()
    """Its open loans."""

    bursts: tuple[BurstView, ...] = ()
    reordering: bool = False
    """Agents merge its reads into sequential runs."""

    age_s: float = 0.0
    """Time since it was last heard of [s]."""

    guaranteed: dict[str, float] = {}


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/jobs``; query ``level``: that level and worse."""

    jobs: tuple[JobView, ...]


class TierView(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of the estate."""

    tier: str
    media: Media
    bytes_per_s: float
    """What all who offer it can be relied on to give together [B/s]."""

    effective_bytes_per_s: float
    """What is divided now: less where jobs suffer congestion [B/s]."""

    granted_bytes_per_s: float
    """All jobs' quotas and checkpoint bursts together [B/s]."""

    lent_bytes_per_s: float
    pool_bytes_per_s: float
    """The elastic pool's size [B/s]."""

    used_bytes_per_s: float


class AgentTierView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier of one agent."""

    tier: str
    media: Media
    bytes_per_s: float
    used_bytes_per_s: float


class AgentJobView(msgspec.Struct, frozen=True, kw_only=True):
    """What one job does at one agent."""

    ordered: dict[str, float]
    """Tier → quota that the agent was last told [B/s]."""

    enforced: dict[str, float]
    """Tier → quota that it said is in force [B/s]."""

    used: dict[str, float]
    """Tier → read lately [B/s]."""

    waiting: int
    """Samples that wait to be prepared."""


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """One agent."""

    agent: str
    address: str
    hosts: tuple[str, ...]
    tiers: tuple[AgentTierView, ...]
    cpu_share: float
    """Of the host's CPU, everybody's together, 0 to 1."""

    workers: int
    transforming: bool
    cache_hit_share: float | None = None
    """Of the samples read since the agent's start, those out of its cache, 0 to 1; None: it has no
    cache, or read nothing."""

    waiting: int
    """Samples of all jobs that wait to be prepared."""

    jobs: dict[str, AgentJobView]
    """Empty in ``Estate``."""

    silent: bool
    """Not heard of for so long that its tiers are not counted on."""

    age_s: float
    """Time since it was last heard of [s]."""


class Agents(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/agents``."""

    agents: tuple[AgentView, ...]


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/ledger``, newest first.

    Query: ``job``, ``tier``, ``kind``, ``open=true``, ``since`` (began or ended then or later,
    s since 1970), ``before`` (an entry's number) and ``limit`` (1 to 1000; 100 unless given).
    """

    entries: tuple[LedgerEntry, ...]
    before: int | None = None
    """Ask with this ``before`` for older entries; none: there are no more."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was decided of a job, and why."""

    decision: int
    """Numbers them; later ones are larger."""

    at: float
    """[s since 1970]."""

    kind: DecisionKind
    job: str
    what: str
    """The decision in a few words, such as ``hdd 120 MB/s``."""

    reason: str
    tier: str = ""
    bytes_per_s: float | None = None


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/decisions``, newest first; query as ``GET /v1/ledger``, but for ``open``."""

    decisions: tuple[Decision, ...]
    before: int | None = None


class JournalView(msgspec.Struct, frozen=True, kw_only=True):
    """How the controller's memory beyond its process is."""

    path: str | None
    """None: it was told to keep none."""

    degraded: str = ""
    """Why nothing is written now; empty while all is well."""

    nbytes: int = 0
    unwritten: int = 0
    """Changes that wait to be written."""


class ControllerView(msgspec.Struct, frozen=True, kw_only=True):
    """The controller itself."""

    boot: str
    version: str
    uptime_s: float
    settling: bool
    """It returned, and still waits for agents to tell what they enforce."""

    journal: JournalView
    reports: int
    """Health reports taken since its start."""

    refused: int
    """Health and agent reports refused since its start."""


class Estate(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/estate``: all of it at one moment, for ``headrace top``."""

    at: float
    """[s since 1970]."""

    controller: ControllerView
    tiers: tuple[TierView, ...]
    jobs: tuple[JobView, ...]
    agents: tuple[AgentView, ...]
    hotspots: tuple[HotspotView, ...] = ()
    """Announcements that hold copies, or are about to, newest first."""
