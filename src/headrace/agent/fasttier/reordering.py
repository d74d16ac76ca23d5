"""Reads what jobs need next in the order in which it lies, and leaves it on the fast tier.

For jobs that wait for a medium which seeks. Upcoming samples that lie close together are
brought over by one long read, gaps included; what lies in the gaps is kept as well where it
is needed sooner than something else that is kept. Workers then read the copies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from headrace.agent.arena import Extent
from headrace.agent.engine import Engine, Reading
from headrace.agent.fasttier.layout import Layout
from headrace.agent.fasttier.through import Passage, leave_copy
from headrace.agent.fasttier.tier import FastTier, Key
from headrace.agent.jobs import ServedJob
from headrace.core.errors import HeadraceError
from headrace.policy.lookahead_events import FetchBegan, FetchEnded, Visit
from headrace.policy.nextuse import Use
from headrace.policy.runs import Run, SeekCosts

log = logging.getLogger("headrace.agent.fasttier")

PERIOD_S = 0.1
"""Time between two looks at what lies ahead [s]."""

RESTING_PERIOD_S = 1.0
"""The same while nobody asks for anything [s]."""

LAYOUTS_KEPT = 16
"""Datasets of which it is remembered where their samples lie."""

NEAR_STEPS = 2
"""Visits of so many steps that come next are left alone: they would wait for a long read to end,
and a job's first batches would come seconds later."""

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


@dataclass(frozen=True, slots=True)
class _Copy:
    """One sample that is to be kept."""

    row: int
    key: Key
    slot: tuple[Extent, ...]


class Reordering:
    """Long reads for the jobs of an agent that are ordered to be reordered, one read at a time.

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
        self._costs = costs or SeekCosts()
        self._layouts: dict[str, Layout] = {}

    async def run(self) -> None:
        """Do so until cancelled; no read goes on afterwards."""
        tier = self._engine.fast.tier
        if tier is None:
            return
        with ThreadPoolExecutor(1, thread_name_prefix="headrace-runs") as thread:
            while not tier.off:
                await asyncio.sleep(RESTING_PERIOD_S if self._engine.rests else PERIOD_S)
                for name in self._jobs():
                    await self._reorder(name, tier, thread)

    def _jobs(self) -> list[str]:
        ordered = self._engine.reordered
        return [name for name in self._engine.jobs if self._always or name in ordered]

    async def _reorder(self, name: str, tier: FastTier, thread: ThreadPoolExecutor) -> None:
        job = self._engine.jobs.get(name)
        if job is None:
            return
        for wanted in self._wanted(name, job, tier):
            visits = [visit for run in wanted.runs for visit in wanted.visits_in(run)]
            self._engine.handle(FetchBegan(job=name, visits=visits))
            try:
                await self._fetch_all(name, job, wanted, _Hands(tier, thread))
            finally:
                self._engine.handle(FetchEnded(job=name, visits=visits))

    def _wanted(self, name: str, job: ServedJob, tier: FastTier) -> list[_Wanted]:
        """Return what is worth bringing over, nearest visits first as far as there is room."""
        found = []
        room = tier.budget // SHARE
        for source, visits in enumerate(self._missing(name, job, tier)):
            start = job.open.source_range(source).start
            lengths = job.open.sources[source].index.lengths
            rows = [visit.sample - start for visit in visits]
            fitting = int(np.searchsorted(np.cumsum(lengths[rows]), room, side="right"))
            rows = rows[:fitting]
            runs = self._layout(job, source).runs(np.array(rows, np.int64), self._costs)
            if runs:
                found.append(_Wanted(source, rows, visits[:fitting], runs))
        return found

    def _missing(self, name: str, job: ServedJob, tier: FastTier) -> list[list[Visit]]:
        """Return the upcoming visits that are not kept, by source."""
        missing: list[list[Visit]] = [[] for _ in job.sources]
        near = self._engine.over(name) + NEAR_STEPS
        for visit in self._engine.upcoming(name):
            if visit.step <= near:
                continue
            source = job.open.source_of(visit.sample)
            if not tier.holds(*tier.key(job, source, visit.sample)):
                missing[source].append(visit)
        return missing

    def _layout(self, job: ServedJob, source: int) -> Layout:
        digest = job.open.spec.sources[source].index_digest
        if digest not in self._layouts:
            self._layouts[digest] = Layout(job.open.sources[source].index)
            if len(self._layouts) > LAYOUTS_KEPT:
                del self._layouts[next(iter(self._layouts))]
        return self._layouts[digest]

    async def _fetch_all(self, name: str, job: ServedJob, wanted: _Wanted, hands: _Hands) -> None:
        layout = self._layout(job, wanted.source)
        for run in wanted.runs:
            for piece in layout.pieces(run, np.array(wanted.rows, np.int64)):
                if name not in self._engine.jobs or hands.tier.off:
                    return
                await self._fetch(name, job, wanted, piece, hands)
                self._engine.handle(FetchEnded(job=name, visits=wanted.visits_in(piece)))

    async def _fetch(
        self, name: str, job: ServedJob, wanted: _Wanted, piece: Run, hands: _Hands
    ) -> None:
        source = job.sources[wanted.source]
        throttled_s = await self._engine.wait_for_quota(name, source.tier, len(piece))
        rows = self._layout(job, wanted.source).rows_in(piece).tolist()
        uses = dict(zip(rows, hands.tier.next_of(job, wanted.source, rows), strict=True))
        uses |= {wanted.rows[member]: _use(wanted.visits[member]) for member in piece.members}
        begin = time.perf_counter()
        await hands.bring_over(job, wanted.source, uses, len(piece))
        reading = Reading(name, source.tier, len(piece), throttled_s)
        self._engine.count_reading(reading, time.perf_counter() - begin)


@dataclass(frozen=True, slots=True)
class _Hands:
    """The fast tier and the thread that reads for it."""

    tier: FastTier
    thread: ThreadPoolExecutor

    async def bring_over(
        self, job: ServedJob, source: int, uses: dict[int, Use | None], nbytes: int
    ) -> None:
        """Read some rows of one file at once, and keep those that are worth it."""
        copies = self._admitted(job, source, uses)
        if not copies:
            return
        records = [self.tier.record_of(copy.key) for copy in copies]
        reading = partial(_read_and_leave, job, source, copies, self.tier.fd)
        loop = asyncio.get_running_loop()
        passages = await asyncio.shield(loop.run_in_executor(self.thread, reading))
        self.tier.count_run(nbytes, passages)
        for number, (copy, record) in enumerate(zip(copies, records, strict=True)):
            self.tier.settle(copy.key, record, passages[number].stored if passages else None)

    def _admitted(self, job: ServedJob, source: int, uses: dict[int, Use | None]) -> list[_Copy]:
        """Return those of some rows of one file that are to be kept, in the order of the rows."""
        index, start = job.open.sources[source].index, job.open.source_range(source).start
        version = index.location(next(iter(uses))).file_version
        copies = []
        for row, use in sorted(uses.items(), key=_soonest_first):
            key = self.tier.key(job, source, start + row)
            slot = self.tier.admit(key, int(index.lengths[row]), use, version)
            if slot:
                copies.append(_Copy(row, key, slot))
        return sorted(copies, key=lambda copy: copy.row)


def _read_and_leave(
    job: ServedJob, source: int, copies: Sequence[_Copy], fd: int
) -> list[Passage] | None:
    """Read samples at once and leave copies; None: they cannot be read, as each will tell."""
    index = job.open.sources[source].index
    locations = [index.location(copy.row) for copy in copies]
    try:
        found = job.preparers[source].raw_run(locations)
    except HeadraceError as error:
        log.info("a long read of %s failed: %s", locations[0].file, error)
        return None
    return [leave_copy(fd, copy.slot, fields) for copy, fields in zip(copies, found, strict=True)]


def _use(visit: Visit) -> Use:
    return Use(visit.job, visit.step)


def _soonest_first(item: tuple[int, Use | None]) -> tuple[bool, int]:
    use = item[1]
    return use is None, 0 if use is None else use.step
