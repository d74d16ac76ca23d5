"""What goes wrong in a simulated run, and when: injected, labelled, the same for all policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.media import TierName
from headrace.policy.reservation.events import Mode

MODES: tuple[Mode, ...] = ("none", "cold-start", "thrash", "congestion", "transform-bound")
"""Ground truth of an iteration is recorded as a set of these: bit ``1 << index`` for each."""

FOREMOST: tuple[Mode, ...] = ("cold-start", "congestion", "thrash", "transform-bound")
"""Where several are true of an iteration, the first of these is the one that it is counted as."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Restart:
    """A job fails and starts anew: its queue is lost, its first reads are slow.

    Labels the job's first ``label_iterations`` iterations as cold start.
    """

    job: str
    at_s: float
    initialise_s: float = 120.0
    """Until its first step asks for a batch: ranks load the checkpoint [s]."""

    latency_factor: float = 4.0
    """Latency of its first reads against its steady one."""

    cold_bytes: float = 2e9
    """Bytes after which latency is steady again: connections, metadata, open files [bytes]."""

    cache_lost: float = 1.0
    """Part of the job's cached bytes that is gone; what an agent's own cache holds survives."""

    label_iterations: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """Somebody reads a lot once, through the same cache and from the same disks."""

    at_s: float
    until_s: float
    bytes_per_s: float
    """Read from the slow tier [B/s]."""

    cached: float = 1.0
    """Part of it that also enters a page cache."""

    jobs: tuple[str, ...] = ()
    """Labelled jobs; none named: all that use the cache."""

    label_after_s: float = 0.0
    """How long after its end iterations are still labelled as thrash [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossTraffic:
    """Others' traffic takes a part of a link."""

    link: TierName
    at_s: float
    until_s: float
    bytes_per_s: float
    label_after_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuContention:
    """Others' work takes a part of the cores that transform."""

    at_s: float
    until_s: float
    cores: float
    jobs: tuple[str, ...] = ()
    """Labelled jobs; none named: all that transform."""

    label_after_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointBurst:
    """A job moves a checkpoint to or from a tier."""

    job: str
    burst: str
    tier: TierName
    at_s: float
    nbytes: float
    deadline_s: float
    """Time after ``at_s`` at which it should be done [s]."""

    most_bytes_per_s: float
    """What the job's hosts can move [B/s]."""

    urgent: bool = False


Episode: TypeAlias = Restart | Scan | CrossTraffic | CpuContention | CheckpointBurst
