"""Messages between trainers, agents and the controller, as JSON or MessagePack bodies.

As with the agent's own messages, unknown fields are refused on requests and ignored on
answers. Amounts in answers are the receiver's own part: a job's quota is divided over the
agents and hosts that read for it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.media import Media

BINARY = "application/msgpack"
"""Content type of a MessagePack body; anything else is read as JSON."""

MOST_REPORT_BYTES = 1024
"""Longest health report [bytes]."""


class JobAnnounced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT /v1/jobs/{job}``: idempotent; each host of a job sends it before its first step.

    Answered with ``HealthAnswer``, so that direct reads are limited before the first report.
    ``DELETE /v1/jobs/{job}`` ends the job; with ``?host=NAME`` only that host leaves it, and
    the job ends with its last one. Answered with 204.
    """

    host: str
    """The host that announces: an own name among the job's hosts."""

    boot: str
    """Changes when the job was started anew on the host: its iterations begin at 0 again."""

    world: int
    """Ranks of the job."""

    hosts: int = 1
    """Hosts of the job that will report."""

    title: str = ""
    """What people call it."""

    data_path: str = ""
    """What all runs of it have in common: what one of them showed is known of the next."""

    weight: float = 1.0
    """Its part of contended bandwidth, relative to other jobs'."""

    guaranteed: dict[str, float] = {}
    """Tier → bandwidth that the job keeps whatever others ask for [B/s]."""

    step_time_s: float = 0.0
    """Expected time of one step [s]; 0 when not known."""

    begins_in_s: float = 0.0
    """Time until the first step asks for its batch [s]."""

    upcoming_bytes: tuple[int, ...] = ()
    """Stored bytes of the job's first global batches, from the schedule [bytes]."""

    iteration: int = 0
    """Iterations done already, when it announces itself again to a controller that returned."""


class HealthReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/jobs/{job}/health``: one host's ranks at the end of one iteration, < 1 KB.

    The worst rank of the host counts: shallowest queue, longest wait; bytes are summed.
    """

    host: str
    boot: str
    iteration: int
    """Iterations since the host's run began; each is reported once, in order."""

    step: int
    step_time_s: float
    wait_s: float
    queue_depth: float
    queue_capacity: float
    io_latency_s: float
    io_latency_cv: float
    next_bytes: int
    """Stored bytes of the first batch that does not lie ready [bytes]."""

    upcoming_bytes: tuple[int, ...] = ()
    """Of the batches after it, at most 8 [bytes]."""

    queue_share: float = 0.0
    throttled_share: float = 0.0
    hit_rate: float = 1.0
    split: dict[str, float] = {}
    transform_share: float = 0.0
    nic_bytes_per_s: float = 0.0
    agent_bytes_per_s: float = 0.0
    """Of that, sent by agents, transformed or stored [B/s]."""

    read_bytes_per_s: float = 0.0
    direct_bytes: dict[str, int] = {}
    """Tier → bytes that the host read from storage by itself since the report before."""

    ranks: int = 1
    """Ranks that the report sums up."""


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller makes of a job's health, and what the host may read by itself."""

    score: float
    level: str
    mode: str
    reason: str = ""
    quotas: dict[str, float] = {}
    """Tier → bandwidth of this host's direct reads [B/s]; not named: not limited."""

    settling: bool = False
    """The controller returned a moment ago: quotas stay as they are, whatever it says of them."""

    every: int = 1
    """Report every so many iterations from now on."""

    stall_every_s: float = 1.0
    """Report as often as this while a step does not come [s]."""

    spread_s: float = 0.0
    """Wait a part of this time of the host's own before each report: the hosts of a synchronous
    job end an iteration together, and their reports should not come all at once [s]."""


class TierOffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tier of one agent's host."""

    tier: str
    media: Media
    bytes_per_s: float
    """What it can be relied on to give [B/s]."""


class AgentAnnounced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT /v1/agents/{agent}``: idempotent; also tells what is in force, to be reconciled.

    Answered with ``AgentOrders``. ``DELETE /v1/agents/{agent}`` takes the agent out at once.
    """

    boot: str
    address: str
    hosts: tuple[str, ...] = ()
    tiers: tuple[TierOffer, ...] = ()
    enforced: dict[str, dict[str, float]] = {}
    """Job → tier → quota that the agent holds the job to now [B/s]."""


class TierUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one job did on one tier of one agent since the report before."""

    nbytes: int = 0
    reads: int = 0
    queued_s: float = 0.0
    """Time that its reads waited for the job's quota, summed [s]."""

    read_s: float = 0.0
    """Time that they took, summed [s]."""


class JobUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one job did at one agent since the report before."""

    tiers: dict[str, TierUse] = {}
    tensor_bytes: int = 0
    """Sent as transformed samples [bytes]."""

    raw_bytes: int = 0
    """Sent as encoded bytes [bytes]."""

    waiting: int = 0
    """Samples that wait to be prepared now."""

    enforced: dict[str, float] = {}
    """Tier → quota in force [B/s]."""


class AgentReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/agents/{agent}/report``, every ``AgentOrders.every_s``."""

    boot: str
    sequence: int
    """Counts reports of this boot from 0."""

    interval_s: float
    jobs: dict[str, JobUse] = {}
    cpu_share: float = 0.0
    """Of the host's CPU, everybody's together, 0 to 1."""

    workers: int = 0
    transforming: bool = True
    cache_hit_share: float | None = None
    """Of the samples read since the agent's start, those out of its cache, 0 to 1; None: it has no
    cache, or read nothing."""


class AgentOrders(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent holds its jobs to until the next orders."""

    quotas: dict[str, dict[str, float]] = {}
    """Job → tier → bandwidth at this agent [B/s]; a job that is not named is not limited."""

    reorder: tuple[str, ...] | None = ()
    """Jobs whose upcoming reads are merged into sequential runs; None: as before."""

    every_s: float = 1.0
    """Report after this time [s]."""


class Burst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT /v1/jobs/{job}/bursts/{burst}``: a checkpoint will be moved; again to renew it.

    Answered with ``BurstAnswer``; ``DELETE`` ends it.
    """

    tier: str
    nbytes: int
    deadline_s: float
    urgent: bool = False
    kind: Literal["save", "load"] = "save"


class BurstAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The bandwidth that a burst may take."""

    bytes_per_s: float
    reason: str
    valid_s: float = 10.0
    """Ask again within this time [s]."""
