"""The reads that pass by the fast tier just now, by their numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headrace.agent.config import AgentConfig
from headrace.agent.fasttier.file import FastFile
from headrace.agent.fasttier.through import Errand, Passage
from headrace.agent.fasttier.tier import FastTier, Trip
from headrace.agent.jobs import ServedJob, ServedSource
from headrace.core.clock import Clock
from headrace.core.errors import StorageError
from headrace.policy.lookahead import Lookahead
from headrace.policy.lookahead_events import Visit
from headrace.prepare.job import OpenJob, Place

log = logging.getLogger("headrace.agent.fasttier")


Holds = Callable[[int], bool]
"""Tells whether a row of a source would be read from the fast tier now."""


class Trips:
    """What is under way. Without a fast tier nothing ever is, and asking costs nothing."""

    def __init__(self, tier: FastTier | None) -> None:
        self.tier = tier
        self._trips: dict[int, Trip] = {}

    @property
    def fd(self) -> int:
        """Descriptor of the fast tier's file; -1 where there is none."""
        return -1 if self.tier is None else self.tier.fd

    @property
    def in_use(self) -> bool:
        """Whether there is a fast tier, and it has not failed."""
        return self.tier is not None and not self.tier.off

    def holders(self, job: OpenJob, sources: Sequence[ServedSource]) -> Sequence[Holds]:
        """Return what tells of each source's rows whether they are kept; nothing: none are."""
        if self.tier is None:
            return ()
        pairs = zip(job.spec.sources, sources, strict=True)
        datasets = [self.tier.timetable.dataset(spec, source) for spec, source in pairs]
        return [partial(self.tier.holds, dataset) for dataset in datasets]

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
        """Return when a job's step is expected [s]; infinite for a job that is gone."""
        return self.queue.due_at(job, step, self.clock.now())


def open_fast_tier(config: AgentConfig, queue: Lookahead, clock: Clock) -> FastTier | None:
    """Return the fast tier that an agent is configured with; none where its disk has no room."""
    if config.cache is None:
        return None
    try:
        file = FastFile(config.cache, config.cache_bytes)
    except StorageError as error:
        log.warning("samples are read from where they lie, there is no fast tier: %s", error)
        return None
    return FastTier(file, QueueProgress(queue, clock))
