"""Reads what jobs need next in the order in which it lies, and leaves it on the fast tier.

For jobs that wait for a medium which seeks. Upcoming samples that lie close together are
brought over by one long read, gaps included; what lies in the gaps is kept as well where it
is needed sooner than something else that is kept. Workers then read the copies.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from headrace.agent.engine import Engine
from headrace.agent.fasttier.carrier import Carrier, Load
from headrace.agent.fasttier.layout import Layout
from headrace.agent.fasttier.tier import FastTier
from headrace.agent.jobs import ServedJob
from headrace.agent.usage import Reading
from headrace.core.media import TierName
from headrace.policy.lookahead_events import FetchBegan, FetchEnded, Visit
from headrace.policy.nextuse import Use
from headrace.policy.runs import Run, SeekCosts

PERIOD_S = 0.1
"""Time between two looks at what lies ahead [s]."""

RESTING_PERIOD_S = 1.0
"""The same while nobody asks for anything [s]."""

LAYOUTS_KEPT = 16
"""Datasets of which it is remembered where their samples lie."""

NEAR_STEPS = 2
"""Visits of so many steps that come next are left alone: they would wait for a long read to end,
and a job's first batches would come seconds later."""

URGENT_STEPS = 8
"""Once something held back is due within so many steps, it is held back no longer."""

PATIENT_GAIN = 4.0
"""Until then more is collected, unless reading is so many times as fast already."""

WINDOW_STEPS = 64
"""Steps whose samples tell whether a job can gain anything."""

SHARE = 2
"""One round brings over at most one part in so many of the fast tier."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Visits of one of a job's sources, and the long reads that bring them over."""

    source: int
    rows: list[int]
    visits: list[Visit]
    runs: list[Run]

    def visits_in(self, run: Run) -> list[Visit]:
        return [self.visits[member] for member in run.members]


class Reordering:
    """Long reads for the jobs of an agent that are ordered to be reordered, one read at a time.

    A job that waits for its quota keeps no other waiting.

    Args:
        engine: The agent's; its ``reordered`` names the jobs.
        always: Do so for every job, named or not.
        costs: Of the medium that jobs wait for.
    """

    def __init__(
        self, engine: Engine, *, always: bool = False, costs: SeekCosts | None = None
    ) -> None:
        self._engine = engine
        self._always = always
        self._costs = costs
        self._layouts: dict[str, Layout] = {}
        self._held: dict[str, dict[Visit, None]] = {}
        self._promising: dict[str, bool] = {}
        self._going: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Do so until cancelled; nothing is held back afterwards, and a read ends as it may."""
        tier = self._engine.fast.tier
        if tier is None:
            return
        with closing(Carrier(tier)) as carrier:
            async with asyncio.TaskGroup() as group:
                try:
                    while not tier.off:
                        await asyncio.sleep(RESTING_PERIOD_S if self._engine.rests else PERIOD_S)
                        self._look(carrier, group)
                finally:
                    self._release({})

    def _look(self, carrier: Carrier, group: asyncio.TaskGroup) -> None:
        ordered = self._engine.reordered
        jobs = {
            name: job for name, job in self._engine.jobs.items() if self._always or name in ordered
        }
        self._release(jobs)
        for name, job in jobs.items():
            if name not in self._going and self._is_promising(name, job):
                going = group.create_task(self._reorder(name, job, carrier), name=name)
                self._going[name] = going
                going.add_done_callback(lambda done: self._going.pop(done.get_name()))

    def _release(self, but: Mapping[str, object]) -> None:
        """Hold back nothing any more of jobs that are not named, and begin no read for them."""
        for name in self._going.keys() - but.keys():
            self._going[name].cancel()
        for name in self._held.keys() - but.keys():
            self._engine.handle(FetchEnded(job=name, visits=list(self._held.pop(name))))
        self._promising = {name: it for name, it in self._promising.items() if name in but}

    def _is_promising(self, name: str, job: ServedJob) -> bool:
        """Return whether a job's samples lie close enough to each other for long reads."""
        known = self._promising.get(name)
        if known is None:
            first = self._engine.over(name) + 1
            visits = [
                Visit(job=name, step=step, sample=planned.sample, epoch=planned.epoch)
                for step in range(first, first + WINDOW_STEPS)
                for planned in job.plan.due(step)
            ]
            known = bool(self._wanted(job, visits, math.inf, None))
            self._promising[name] = known
        return known

    async def _reorder(self, name: str, job: ServedJob, carrier: Carrier) -> None:
        """Hold more visits back, and bring them over once that is worth it, or due."""
        over, held = self._engine.over(name), self._collect(name, job, carrier.tier)
        if not held:
            return
        urgent = held[0].step <= over + URGENT_STEPS
        gain = None if urgent else PATIENT_GAIN
        wanted = self._wanted(job, held, carrier.tier.budget // SHARE, gain)
        if not wanted and not urgent:
            return
        try:
            for part in wanted:
                await self._fetch_all(name, job, part, carrier)
        finally:
            self._held.pop(name, None)
            self._engine.handle(FetchEnded(job=name, visits=held))

    def _collect(self, name: str, job: ServedJob, tier: FastTier) -> list[Visit]:
        """Hold back what is foreseen and not kept; return all that is held, what is due first."""
        over = self._engine.over(name)
        fresh = [
            visit
            for visit in self._engine.upcoming(name)
            if visit.step > over + NEAR_STEPS and not self._is_kept(job, visit.sample, tier)
        ]
        if fresh:
            self._engine.handle(FetchBegan(job=name, visits=fresh))
        held = self._held.setdefault(name, {})
        held |= dict.fromkeys(fresh)
        return sorted((visit for visit in held if visit.step > over), key=lambda v: v.step)

    def _is_kept(self, job: ServedJob, sample: int, tier: FastTier) -> bool:
        return tier.tier_of(*tier.key(job, job.open.source_of(sample), sample)) is not None

    def _wanted(
        self, job: ServedJob, visits: Sequence[Visit], room: float, least_gain: float | None
    ) -> list[_Wanted]:
        """Return the long reads worth making for some visits, as far as there is room."""
        found = []
        for source, place in enumerate(job.sources):
            span = job.open.source_range(source)
            own = _first_visits(visit for visit in visits if visit.sample in span)
            rows = [visit.sample - span.start for visit in own]
            sizes = np.cumsum(job.open.sources[source].index.lengths[rows])
            rows = rows[: int(np.searchsorted(sizes, room, side="right"))]
            costs = self._costs_of(place.tier)
            if least_gain is not None:
                costs = replace(costs, least_gain=least_gain)
            runs = self._layout(job, source).runs(np.array(rows, np.int64), costs)
            if runs:
                found.append(_Wanted(source, rows, own[: len(rows)], runs))
        return found

    def _costs_of(self, tier: TierName) -> SeekCosts:
        """Return what a tier's medium takes for a jump; a hard disk's where it is not known."""
        if self._costs is not None:
            return self._costs
        for known in self._engine.tiers.all:
            if known.name == tier:
                seek_s = SeekCosts().seek_s if known.media == "hdd" else 0.0
                return SeekCosts(seek_s=seek_s, bytes_per_s=known.bytes_per_s)
        return SeekCosts()

    def _layout(self, job: ServedJob, source: int) -> Layout:
        digest = job.open.spec.sources[source].index_digest
        if digest not in self._layouts:
            self._layouts[digest] = Layout(job.open.sources[source].index)
            if len(self._layouts) > LAYOUTS_KEPT:
                del self._layouts[next(iter(self._layouts))]
        return self._layouts[digest]

    async def _fetch_all(
        self, name: str, job: ServedJob, wanted: _Wanted, carrier: Carrier
    ) -> None:
        layout = self._layout(job, wanted.source)
        for run in wanted.runs:
            for piece in layout.pieces(run, np.array(wanted.rows, np.int64)):
                if name not in self._engine.jobs or carrier.tier.off:
                    return
                await self._fetch(name, job, wanted, piece, carrier)
                self._engine.handle(FetchEnded(job=name, visits=wanted.visits_in(piece)))

    async def _fetch(
        self, name: str, job: ServedJob, wanted: _Wanted, piece: Run, carrier: Carrier
    ) -> None:
        source = job.sources[wanted.source]
        step = min((wanted.visits[member].step for member in piece.members), default=0)
        throttled_s = await self._engine.bandwidth.wait(name, source.tier, len(piece), step=step)
        rows = self._layout(job, wanted.source).rows_in(piece).tolist()
        uses = dict(zip(rows, carrier.tier.next_of(job, wanted.source, rows), strict=True))
        uses |= {wanted.rows[member]: _use(wanted.visits[member]) for member in piece.members}
        read_s = await carrier.bring_over(Load(job, wanted.source, uses, len(piece)))
        if read_s is not None:
            reading = Reading(name, source.tier, len(piece), throttled_s)
            self._engine.books.read(reading, read_s)


def _first_visits(visits: Iterable[Visit]) -> list[Visit]:
    """Return each sample's first visit: it is brought over once, however often it is read."""
    first: dict[int, Visit] = {}
    for visit in visits:
        first.setdefault(visit.sample, visit)
    return list(first.values())


def _use(visit: Visit) -> Use:
    return Use(visit.job, visit.step)
