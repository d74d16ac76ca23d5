"""What the consumer queue may use, and what it tells about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.policy.window import WindowLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class LookaheadLimits:
    """What the queue may use."""

    memory: int
    """Budget of prepared and running samples [bytes]."""

    workers: int
    """Workers that may be busy at once."""

    block: int = 4096
    """Memory is handed out in multiples of this [bytes]."""

    crashes: int = 2
    """Tasks that a sample may take down before it is only sent raw."""

    burst_s: float = 0.25
    """A job's quota that was not used for this long is saved up, and no more [s]."""

    window: WindowLimits = field(default_factory=WindowLimits)


@dataclass(frozen=True, kw_only=True, slots=True)
class LookaheadStatistics:
    """What the queue holds now and has done since it began."""

    jobs: int
    running: int
    """Tasks that workers were given and have not ended."""

    waited: int
    """Samples that a request waits for."""

    ready: int
    """Samples that lie ready."""

    planned: int
    """Samples foreseen and not yet started."""

    memory_used_bytes: int
    memory_budget_bytes: int
    counts: dict[str, int]
    """``started``, ``finished``, ``dropped``, ``crashed``, ``refused``, ``ready``, ``waited``,
    ``shared``, ``raw-CODE``, ``missing-CODE``: samples since the start."""
