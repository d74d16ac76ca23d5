"""One rank's figures since it last spoke, and how several ranks' add up: pure values.

They travel between processes of one host as MessagePack arrays.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from headrace.client.reporting.moment import Moment

LAST_READS = 256
"""Reads that latency and its spread are taken over, at least [samples]."""


class Figures(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True):
    """What happened between two reports; of one rank, or of several together."""

    iteration: int
    """The latest one, from 0 since the run began."""

    step: int
    step_time_s: float
    wait_s: float
    """Mean over the iterations [s]."""

    queue_depth: float
    """Mean over the iterations [batches]."""

    queue_capacity: float
    latency_s: float
    latency_cv: float
    upcoming_bytes: tuple[int, ...]
    """Stored bytes of the batches from the first one on that does not lie ready [bytes]."""

    queued_s: float = 0.0
    """Waiting behind others for storage and links, on the way over these too, summed [s]."""

    cores_s: float = 0.0
    """Waiting for cores, which worked on others, summed [s]."""

    throttled_s: float = 0.0
    read_s: float = 0.0
    transform_s: float = 0.0
    tier_bytes: dict[str, int] = {}
    """Tier → stored bytes read of it by agents [bytes]."""

    hit_bytes: dict[str, int] = {}
    """Of those, from the tier's cache [bytes]."""

    cache_bytes: int = 0
    """Of those, read by agents that have a cache, whether or not it held them [bytes]."""

    direct_bytes: int = 0
    """Read from storage by the rank itself [bytes]."""

    wire_bytes: int = 0

    @property
    def fullness(self) -> float:
        """How full the queue was, 0 to 1."""
        return self.queue_depth / self.queue_capacity if self.queue_capacity else 0.0


class Latencies:
    """Mean and spread of the completion latency of the last reads."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float, float]] = deque()
        self._reads = 0

    def add(self, reads: int, latency_s: float, latency_s2: float) -> None:
        """Add one step's sums, and forget steps that are not needed any more."""
        if reads:  # a step that is waited for read nothing yet
            self._steps.append((reads, latency_s, latency_s2))
            self._reads += reads
            while self._reads - self._steps[0][0] >= LAST_READS:
                self._reads -= self._steps.popleft()[0]

    def mean_and_cv(self) -> tuple[float, float]:
        """Return the mean [s] and the coefficient of variation; zeros before the first read."""
        total = math.fsum(latency_s for _, latency_s, _ in self._steps)
        squares = math.fsum(latency_s2 for _, _, latency_s2 in self._steps)
        if total <= 0:
            return 0.0, 0.0
        mean = total / self._reads
        return mean, math.sqrt(max(squares / self._reads - mean * mean, 0.0)) / mean


def of_moments(
    moments: Sequence[Moment],
    *,
    latencies: Latencies,
    step_time_s: float,
    queue_capacity: int,
    upcoming_bytes: tuple[int, ...],
    direct_bytes: int,
) -> Figures:
    """Sum up the steps since the last time; at least one."""
    for moment in moments:
        counts = moment.counts
        latencies.add(counts.reads, counts.latency_s, counts.latency_s2)
    mean, cv = latencies.mean_and_cv()
    sums = [moment.counts for moment in moments]
    return Figures(
        iteration=moments[-1].iteration,
        step=moments[-1].step,
        step_time_s=step_time_s,
        wait_s=sum(moment.wait_s for moment in moments) / len(moments),
        queue_depth=sum(moment.ready_steps for moment in moments) / len(moments),
        queue_capacity=queue_capacity,
        latency_s=mean,
        latency_cv=cv,
        upcoming_bytes=upcoming_bytes,
        queued_s=sum(counts.queued_s - counts.cores_s + counts.link_s for counts in sums),
        cores_s=sum(counts.cores_s for counts in sums),
        throttled_s=sum(counts.throttled_s for counts in sums),
        read_s=sum(counts.read_s for counts in sums),
        transform_s=sum(counts.transform_s for counts in sums),
        tier_bytes=_added(counts.tier_bytes for counts in sums),
        hit_bytes=_added(counts.hit_bytes for counts in sums),
        cache_bytes=sum(counts.cache_bytes for counts in sums),
        direct_bytes=direct_bytes,
        wire_bytes=sum(counts.wire_bytes for counts in sums),
    )


def later(old: Figures | None, new: Figures) -> Figures:
    """Return one rank's figures since the older ones began, when those could not be told."""
    if old is None:
        return new
    return msgspec.structs.replace(new, **_flows([old, new]))


def together(ranks: Iterable[Figures]) -> Figures:
    """Return several ranks' figures as one: the worst rank counts, what flows is summed."""
    ranks = list(ranks)
    emptiest = min(ranks, key=lambda rank: rank.fullness)
    slowest = max(ranks, key=lambda rank: rank.latency_s)
    return Figures(
        iteration=max(rank.iteration for rank in ranks),
        step=max(rank.step for rank in ranks),
        step_time_s=max(rank.step_time_s for rank in ranks),
        wait_s=max(rank.wait_s for rank in ranks),
        queue_depth=emptiest.queue_depth,
        queue_capacity=emptiest.queue_capacity,
        latency_s=slowest.latency_s,
        latency_cv=slowest.latency_cv,
        upcoming_bytes=tuple(
            sum(batch) for batch in zip_longest(*(r.upcoming_bytes for r in ranks), fillvalue=0)
        ),
        **_flows(ranks),
    )


def _flows(parts: list[Figures]) -> dict[str, Any]:
    """Return the sums of what flows, as opposed to what stands."""
    return {
        "queued_s": sum(part.queued_s for part in parts),
        "cores_s": sum(part.cores_s for part in parts),
        "throttled_s": sum(part.throttled_s for part in parts),
        "read_s": sum(part.read_s for part in parts),
        "transform_s": sum(part.transform_s for part in parts),
        "tier_bytes": _added(part.tier_bytes for part in parts),
        "hit_bytes": _added(part.hit_bytes for part in parts),
        "cache_bytes": sum(part.cache_bytes for part in parts),
        "direct_bytes": sum(part.direct_bytes for part in parts),
        "wire_bytes": sum(part.wire_bytes for part in parts),
    }


def _added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for tier, nbytes in part.items():
            total[tier] = total.get(tier, 0) + nbytes
    return total
