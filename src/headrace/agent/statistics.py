"""What an agent tells about itself."""

from __future__ import annotations

import msgspec


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
    ``ready`` (lay ready), ``waited`` (finished while asked for), ``raw-CODE``, ``missing-CODE``."""

    placed: int
    """Samples started of which it was known which nodes hold them."""

    beside: int
    """Of those, how many this agent sits beside: their bytes cross no network to be read."""

    weight: int
    """Part of the work that it takes now, relative to others'."""

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
