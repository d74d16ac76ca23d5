"""What a job's start reads, told before it starts: by all ranks, by each host once, by the slowest.

Pure arithmetic over a layout's readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.checkpoint.find import FanIn, bytes_by_rank, bytes_once_per_host, fan_in
from headrace.checkpoint.layout import Reading
from headrace.core.errors import CallerError

MOST_RANKS = 10_000_000
"""Of a job: what each rank reads is added up by rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadPlan:
    """Bytes that ranks read when they load a checkpoint."""

    world_size: int
    hosts: int
    bytes_by_ranks: int
    """When each rank reads what it needs for itself."""

    bytes_once_per_host: int
    """When the ranks of a host read what they share once."""

    bytes_once: int
    """Of all that is read at all."""

    slowest_rank: int
    """The one that reads most."""

    slowest_rank_bytes: int
    mean_rank_bytes: float
    ranges: tuple[FanIn, ...]
    """All that is read, what has most readers first, and of that the longest."""


def plan_load(readings: Sequence[Reading], *, world_size: int, hosts: int) -> LoadPlan:
    """Return what is read.

    Args:
        readings: Of a job with ``world_size`` ranks.
        world_size: Ranks.
        hosts: Ranks are on so many hosts, consecutive ones together, on each as many.

    Raises:
        CallerError: there are more hosts than ranks.
    """
    if hosts > world_size:
        raise CallerError(f"{world_size} ranks cannot be on {hosts} hosts; lower --hosts")
    by_rank = bytes_by_rank(readings, world_size)
    ranges = sorted(fan_in(readings), key=lambda part: (-part.readers, -part.length))
    slowest = int(by_rank.argmax())
    return LoadPlan(
        world_size=world_size,
        hosts=hosts,
        bytes_by_ranks=int(by_rank.sum()),
        bytes_once_per_host=bytes_once_per_host(readings, -(-world_size // hosts)),
        bytes_once=sum(part.length for part in ranges),
        slowest_rank=slowest,
        slowest_rank_bytes=int(by_rank[slowest]),
        mean_rank_bytes=float(by_rank.mean()),
        ranges=tuple(ranges),
    )
