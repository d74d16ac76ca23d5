"""What an agent tells about itself."""

from __future__ import annotations

import msgspec

from headrace.agent.fasttier.statistics import FastTierStatistics
from headrace.wire.control import JobUse


class RangeStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Ranges of files that an agent sent and kept: counts since its start, levels now."""

    preloads: int
    """Leases that last."""

    memory_used_bytes: int
    """Kept for them, or to be."""

    memory_budget_bytes: int
    requests: int
    sent_bytes: int
    kept_bytes: int
    """Asked for, and given out of what is kept."""

    read_bytes: int
    """Read of storage, for leases and for those who asked for what is not kept."""

    shared: int
    """Requests that were given what was just being read for another."""


class CopyStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Chunks of checkpoints that an agent copied: counts since its start, levels now."""

    running: int
    """Calls that are being answered."""

    chunks: int
    read_bytes: int
    """Asked of the source [bytes]."""

    failed: int
    """Calls that ended with an error, or whose client left."""


class AgentStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /v1/statistics``: counts since the start, levels now."""

    agent: str
    boot: str
    uptime_s: float
    jobs: int
    raw_only_jobs: dict[str, str]
    """Job → why it gets raw bytes only."""

    requests: int
    """Fetches being answered now."""

    planned: int
    """Samples foreseen and not yet started."""

    running: int
    waited: int
    """Samples that a request waits for."""

    prepared: int
    """Samples that lie ready now."""

    counts: dict[str, int]
    """Samples: ``started``, ``finished``, ``dropped``, ``crashed``, ``refused``; answered:
    ``ready`` (lay ready), ``waited`` (finished while asked for), ``raw-CODE``, ``missing-CODE``;
    ``shared``: of those ready and waited for, the ones that were made for another job."""

    placed: int
    """Samples started of which it was known which nodes hold them."""

    beside: int
    """Of those, how many this agent sits beside: their bytes cross no network to be read."""

    weight: int
    """Part of the work that it takes now, relative to others'."""

    cache: FastTierStatistics | None
    """The fast tier; None where there is none."""

    ranges: RangeStatistics
    copies: CopyStatistics
    bytes_sent: int
    memory_used_bytes: int
    memory_budget_bytes: int
    workers: int
    workers_live: int
    worker_restarts: int
    transforming: bool
    """False while the CPU guard has stopped transforms."""

    guard_reason: str
    workers_allowed: int
    cpu_capacity_cores: float
    cpu_others_cores: float
    cpu_own_cores: float
    tiers: dict[str, float]
    """Configured tier → what it can be relied on to give [B/s]."""

    use: dict[str, JobUse]
    """Job → what it read of each tier since it came, how long its reads waited for its quota and
    how long they took, and what it was sent; a link's reads are the frames that it carried."""

    quotas: dict[str, dict[str, float]]
    """Job → tier → quota in force [B/s]; who is not named is not limited."""

    controller_away: str
    """Why no orders of the controller are heard; empty when they are, or none is configured."""
