"""The reads that pass by the fast tier just now, by their numbers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headrace.agent.config import AgentConfig
from headrace.agent.fasttier.file import NO_FILES, FastFile, FastFiles, disk_file, memory_file
from headrace.agent.fasttier.records import Kept
from headrace.agent.fasttier.through import Errand, Passage
from headrace.agent.fasttier.tier import FastTier, Trip
from headrace.agent.jobs import ServedJob, ServedSource
from headrace.core.clock import Clock
from headrace.core.errors import StorageError
from headrace.core.media import TierName
from headrace.policy.lookahead import Lookahead
from headrace.policy.lookahead_events import Visit
from headrace.prepare.job import OpenJob, Place

log = logging.getLogger("headrace.agent.fasttier")

COPY_PATIENCE_S = 1.0
"""Longest wait for a copy that another read leaves, before the original is read as well [s]."""

Copies = Callable[[int], TierName | None]
"""Tells where a row of a source would be read from the fast tier now; None: it would not."""


class Trips:
    """What is under way. Without a fast tier nothing ever is, and asking costs nothing."""

    def __init__(self, tier: FastTier | None) -> None:
        self.tier = tier
        self._trips: dict[int, Trip] = {}

    @property
    def files(self) -> FastFiles:
        """Where the fast tier is read and written; nowhere where there is none."""
        return NO_FILES if self.tier is None else self.tier.files

    @property
    def in_use(self) -> bool:
        """Whether there is a fast tier, and it has not failed."""
        return self.tier is not None and not self.tier.off

    def hit_share(self) -> float | None:
        """Return which part of all reads the fast tier saved, 0 to 1; None: there were none."""
        found = None if self.tier is None else self.tier.statistics()
        reads = found.hits + found.misses if found else 0
        return found.hits / reads if found and reads else None

    def cached(self, nbytes: int, *, hit: bool) -> int | None:
        """Return what of a read came out of the fast tier [bytes]; None: there is none."""
        return nbytes * hit if self.in_use else None

    def copies(self, job: OpenJob, sources: Sequence[ServedSource]) -> Sequence[Copies]:
        """Return what tells of each source's rows where they are kept; nothing: none are."""
        if self.tier is None:
            return ()
        pairs = zip(job.spec.sources, sources, strict=True)
        datasets = [self.tier.timetable.dataset(spec, source) for spec, source in pairs]
        return [partial(self.tier.tier_of, dataset) for dataset in datasets]

    def add(self, name: str, job: ServedJob) -> None:
        """Take in a job, or that it changed."""
        if self.tier is not None:
            self.tier.timetable.add(name, job)

    def forget(self, name: str) -> None:
        """Keep nothing for a job that is gone."""
        if self.tier is not None:
            self.tier.forget_job(name)

    def tidy(self) -> None:
        """Look whether what is kept is still needed; to be called every few seconds."""
        if self.tier is not None:
            self.tier.tidy()

    def tier_of(self, kept: Kept) -> TierName:
        """Return the tier that a copy lies on."""
        assert self.tier is not None
        return self.tier.tier_at(kept.extents)

    async def wait_for_copy(self, job: ServedJob, source: int, sample: int) -> None:
        """Wait a moment if a copy of a sample is being written just now."""
        arriving = self.tier and self.tier.arriving(self.tier.key(job, source, sample))
        if arriving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COPY_PATIENCE_S):
                    await arriving.wait()

    def begin(self, number: int, job: ServedJob, visit: Visit, place: Place) -> Errand | None:
        """Return what a read has to do with the fast tier; None: nothing."""
        trip = self.tier and self.tier.begin(visit.job, job, visit, place)
        if not trip:
            return None
        self._trips[number] = trip
        return trip.errand

    def end(self, number: int, passage: Passage | None = None) -> None:
        """Take in what became of a read; None: it failed. A number without a trip is none."""
        trip = self._trips.pop(number, None)
        if trip is not None and self.tier is not None:
            self.tier.end(trip, passage)


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far jobs are, as the consumer queue knows it."""

    queue: Lookahead
    clock: Clock

    def over(self, job: str) -> int:
        """Return the last step that a job will not read for again."""
        return self.queue.over(job)

    def due_at(self, job: str, step: int) -> float:
        """Return when a job's step is expected [s]; infinite if the job is gone or may be."""
        return self.queue.due_at(job, step, self.clock.now())


def open_fast_tier(
    config: AgentConfig, queue: Lookahead, clock: Clock, disk_tier: TierName
) -> FastTier | None:
    """Return the fast tier that an agent is configured with, if any."""
    memory = memory_file(config.cache_memory_bytes) if config.cache_memory_bytes else None
    disk = _on_disk(config)
    if memory is None and disk is None:
        return None
    progress = QueueProgress(queue, clock)
    return FastTier(progress, memory=memory, disk=disk, disk_tier=disk_tier)


def _on_disk(config: AgentConfig) -> FastFile | None:
    """Return the part on a disk; none where the disk has no room."""
    if config.cache is None:
        return None
    try:
        return disk_file(config.cache, config.cache_bytes)
    except StorageError as error:
        log.warning("samples are read from where they lie, nothing is kept on disk: %s", error)
        return None
