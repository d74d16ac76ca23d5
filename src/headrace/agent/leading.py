"""The jobs for which this agent finds out where their blocks lie."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import dataclass

from headrace.agent.engine import Engine
from headrace.agent.jobs import ServedJob
from headrace.agent.placing import Finder, LocatedSource, PlacingLimits
from headrace.agent.roots import Located
from headrace.agent.storages import SharedStorages
from headrace.core.errors import HeadraceError
from headrace.dataset.extents import indexed_files
from headrace.policy.placement import leader
from headrace.storage.port import Locates
from headrace.wire.messages import JobPlaces

log = logging.getLogger("headrace.agent.leading")

PERIOD_S = 0.5
"""Time between two looks at which jobs are to be led, and between portions of questions [s]."""

RESTING_AFTER_S = 300.0
"""A job that asked for nothing for so long is left until it does [s]."""


@dataclass(slots=True)
class _Led:
    """One job that is led."""

    finder: Finder
    release: ExitStack
    """Gives back the storages that the finder asks."""


class Leading:
    """Finds out, for the jobs that it falls to this agent to do so, where their blocks lie."""

    def __init__(
        self, engine: Engine, storages: SharedStorages, limits: PlacingLimits | None = None
    ) -> None:
        self._engine = engine
        self._storages = storages
        self._limits = limits or PlacingLimits()
        self._led: dict[str, _Led] = {}

    async def run(self) -> None:
        """Do so until cancelled."""
        try:
            while True:
                await asyncio.sleep(PERIOD_S)
                await self.look()
        finally:
            for name in list(self._led):
                self._leave(name)

    async def look(self) -> None:
        """Take over and leave jobs, and ask for the next few files of each."""
        mine = {name for name, job in self._engine.jobs.items() if self._leads(name, job)}
        for name in self._led.keys() - mine:
            self._leave(name)
        for name in mine:
            job = self._engine.jobs.get(name)
            if job is not None:
                await self._try_to_advance(name, job)

    def _leads(self, name: str, job: ServedJob) -> bool:
        if self._engine.clock.now() - job.last_used > RESTING_AFTER_S:
            return False
        names = [entry.name for entry in job.message.roster]
        return names[leader(name, names)] == self._engine.config.name

    def _leave(self, name: str) -> None:
        self._led.pop(name).release.close()

    async def _try_to_advance(self, name: str, job: ServedJob) -> None:
        try:
            await self._advance(name, job)
        except HeadraceError as error:  # samples are placed by what is known until then
            self._explain(name, job, str(error))

    async def _advance(self, name: str, job: ServedJob) -> None:
        if name not in self._led:
            self._led[name] = await self._engine.threads.run(lambda: self._take_over(job))
        finder = self._led[name].finder
        if finder.why_never():
            return
        now = self._engine.clock.now()
        places = await self._engine.threads.run(lambda: finder.advance(now))
        if places is None:
            return
        known = job.atlas.newest
        if (places.version or known.version) != known.version:
            await self._offer(name, job, places)
        elif places.reason:
            self._explain(name, job, places.reason)
        else:
            job.atlas.explain("")  # what failed before is over

    async def _offer(self, name: str, job: ServedJob, places: JobPlaces) -> None:
        where = await self._engine.threads.run(lambda: job.atlas.read(places))
        job.atlas.keep(places, where)
        log.info("job %s: the map of its blocks is %s", name, places.version)

    def _explain(self, name: str, job: ServedJob, reason: str) -> None:
        """Say once why samples cannot be placed by where they lie now, or not all of them."""
        if job.atlas.newest.reason != reason:
            log.warning("job %s: where its blocks lie is not known: %s", name, reason)
            job.atlas.explain(reason)

    def _take_over(self, job: ServedJob) -> _Led:
        with ExitStack() as taken:
            sources = [
                LocatedSource(indexed_files(opened.index), self._locates(source.place, taken))
                for opened, source in zip(job.open.sources, job.sources, strict=True)
            ]
            finder = Finder(sources, self._limits)
            if reason := finder.why_never():
                job.atlas.explain(reason)
            return _Led(finder, taken.pop_all())

    def _locates(self, place: Located, taken: ExitStack) -> Locates | None:
        storage = self._storages.take(place)
        taken.callback(self._storages.give_back, place)
        return storage if isinstance(storage, Locates) else None
