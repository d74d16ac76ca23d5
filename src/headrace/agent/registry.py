"""Takes in jobs: checks what they ask for, opens their indexes, compares golden vectors."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from weakref import WeakValueDictionary

import msgspec

from headrace.agent.atlas import Atlas
from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.jobs import Proof, ServedJob, ServedSource
from headrace.agent.leading import Leading
from headrace.agent.roots import Located, Roots
from headrace.agent.storages import SharedStorages
from headrace.agent.tasks import Failed
from headrace.core.errors import CallerError, ConfigError
from headrace.core.job import MAX_STEP, JobSpec
from headrace.core.roster import RosterEntry
from headrace.dataset.index import stored_index
from headrace.prepare.job import OpenJob, open_job
from headrace.prepare.sample import Preparer
from headrace.storage.port import Storage
from headrace.wire.messages import (
    PROTOCOL_VERSION,
    JobPlaces,
    JobRegistered,
    JobRoster,
    RegisterJob,
)

log = logging.getLogger("headrace.agent.registry")

MOST_AGENTS = 4096
"""Most agents of one job: an agent places whole batches over all of them."""

MAX_BATCH = 1 << 20
"""Most samples of one global batch."""

PROOF_PATIENCE_S = 2.0
"""A registration waits this long for the golden vectors before it is answered without [s]."""

PROOF_RETRIES = 3
"""Workers that golden vectors may take down before clients are told that it cannot be done."""

PROOF_RETRY_S = 0.5
PROOF_LATER_S = 60.0
"""Time between later attempts: on a host that was too busy it may work when that is over [s]."""

RESUMED_AFTER_S = 10.0
"""A job that asked for nothing this long and registers again was started again."""


class UnsupportedError(CallerError):
    """The client speaks another protocol."""


class Registry:
    """The jobs of one agent. Slow work runs in threads, one registration of a job at a time."""

    def __init__(
        self,
        engine: Engine,
        config: AgentConfig,
        *,
        unix_socket: str | None,
        weight: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._config = config
        self.roots = Roots(config.roots, config.storages)
        self._storages = SharedStorages()
        self._unix_socket = unix_socket
        self._weight = weight
        self._leading = Leading(engine, self._storages)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unproven: asyncio.Queue[ServedJob] = asyncio.Queue()

    async def register(self, name: str, message: RegisterJob) -> JobRegistered:
        """Serve a job; the same message again changes nothing.

        Raises:
            ConfigError: the message contradicts itself.
            OutsideRootsError, NotFoundError, StaleIndexError: a source cannot be served.
        """
        _check(name, message)
        async with self._locks.setdefault(name, asyncio.Lock()):
            job = await self._served(name, message)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROOF_PATIENCE_S):
                await job.proof.settled.wait()
        return self._answer(job, message.places)

    def share(self, name: str, message: JobRoster) -> JobRegistered:
        """Go on with a job among other agents, by another map or cut elsewhere.

        The same again does nothing.

        Raises:
            ConfigError: the roster has a name twice, or none, or a cut is not possible.
            KeyError: there is no such job.
        """
        _check_roster(message.roster)
        job = self._engine.jobs[name]
        _check_cuts(message.cuts or {}, job.open)
        self._follow(name, job, message)
        return self._answer(job, message.places)

    async def place(self, name: str, places: JobPlaces) -> None:
        """Take in a map of a job's blocks.

        Raises:
            CallerError: it is no map of this job.
            KeyError: there is no such job.
        """
        atlas = self._engine.jobs[name].atlas
        where = await self._engine.threads.run(lambda: atlas.read(places))
        atlas.keep(places, where)
        job = self._engine.jobs.get(name)
        if job is not None and job.message.places == where.version:
            self._engine.follow(name, JobRoster(roster=job.message.roster, places=where.version))

    def _follow(self, name: str, job: ServedJob, shared: JobRoster) -> None:
        now = job.message
        cuts = now.cuts if shared.cuts is None else shared.cuts
        if (now.roster, now.places, now.cuts) != (shared.roster, shared.places, cuts):
            self._engine.follow(name, shared)

    def _answer(self, job: ServedJob, places: str) -> JobRegistered:
        hopeless = job.proof.settled.is_set() and job.raw_only
        return JobRegistered(
            agent=self._config.name,
            mode="raw-only" if hopeless else "transform",
            reason=job.raw_only,
            unix_socket=self._unix_socket,
            boot=self._engine.boot,
            hosts=self._config.hosts,
            weight=self._weight(),
            needs_places=not job.atlas.has(places),
        )

    def index_of(self, url: str) -> bytes:
        """Return the index of a dataset, for a client that cannot see its files; blocks.

        Raises:
            OutsideRootsError, NotFoundError: it cannot be served.
        """
        with ExitStack() as taken:
            return stored_index(self._take(url, taken))

    def close(self) -> None:
        """Close the storages of all jobs."""
        self._storages.close()

    def _take(self, url: str, taken: ExitStack) -> Storage:
        """Return a dataset's storage, which is given back when ``taken`` is closed."""
        place = self.roots.locate(url)
        storage = self._storages.take(place)
        taken.callback(self._storages.give_back, place)
        return storage

    async def _served(self, name: str, message: RegisterJob) -> ServedJob:
        known = self._engine.jobs.get(name)
        if known is not None:
            _check_cuts(message.cuts, known.open)
        rests = known is None or self._is_resting(known)
        message = _with_roster(message, self._config, None if rests else known)
        if known is not None and not rests and _continues(known, message):
            self._follow(name, known, JobRoster(roster=message.roster, places=message.places))
            return known
        job = await self._open(message, known, anew=rests)
        self._engine.add_job(name, job)
        log.info("job %s: world %d, %s", name, message.world, job.raw_only or "transforms")
        return job

    def _is_resting(self, job: ServedJob) -> bool:
        return not job.requests and self._engine.clock.now() - job.last_used > RESUMED_AFTER_S

    async def run(self) -> None:
        """Prove new jobs, and find out where blocks lie, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._leading.run())
            while True:
                group.create_task(self._prove(await self._unproven.get()))

    async def _prove(self, job: ServedJob) -> None:
        """Make the golden vectors; a worker that dies of something else is no verdict."""
        for attempt in itertools.count(1):
            outcome = await self._engine.prove(job.sources[0])
            crashed = isinstance(outcome, Failed) and outcome.code == "crashed"
            if not crashed or attempt > PROOF_RETRIES:
                job.proof.settle(
                    outcome.reason if isinstance(outcome, Failed) else outcome.fingerprint
                )
                self._engine.change_mode(job)
            if not crashed or not self._engine.serves(job.proof):
                return
            await asyncio.sleep(PROOF_RETRY_S if attempt <= PROOF_RETRIES else PROOF_LATER_S)

    async def _open(
        self, message: RegisterJob, known: ServedJob | None, *, anew: bool
    ) -> ServedJob:
        if known is None:
            return await self._open_first(message)
        anew = anew or message.world != known.message.world
        clients = () if anew else known.clients
        if message.fingerprint not in clients:
            clients = (*clients, message.fingerprint)
        plan = self._engine.plan_of(known.open, message, known.atlas, known.sources)
        return dataclasses.replace(known, message=message, clients=clients, plan=plan)

    async def _open_first(self, message: RegisterJob) -> ServedJob:
        opened, sources, release = await self._engine.threads.run(lambda: self._open_anew(message))
        self._engine.open_sources(sources, message.spec.pipeline)
        atlas = Atlas(opened)
        job = ServedJob(
            open=opened,
            message=message,
            clients=(message.fingerprint,),
            sources=sources,
            preparers=_preparers(opened),
            proof=Proof(),
            release=release,
            atlas=atlas,
            plan=self._engine.plan_of(opened, message, atlas, sources),
        )
        if self._config.workers:
            self._unproven.put_nowait(job)
        else:
            job.proof.settle("this agent has no workers (--workers 0)")
        return job

    def _open_anew(
        self, message: RegisterJob
    ) -> tuple[OpenJob, tuple[ServedSource, ...], Callable[[], None]]:
        """Open a job's sources; returns also what gives their storages back."""
        places, indexes = self._places(message.spec)
        with ExitStack() as taken:
            opened = open_job(
                message.spec,
                allowed_ops=self._config.allowed_ops,
                open_url=lambda url: self._take(url, taken),
            )
            _check_cuts(message.cuts, opened)
            release = taken.pop_all().close
        numbers = self._engine.next_numbers(len(places))
        tiers = [self._engine.tiers.of(place.url) for place in places]
        return opened, tuple(map(ServedSource, numbers, places, tiers, indexes)), release

    def _places(self, spec: JobSpec) -> tuple[list[Located], list[Located | None]]:
        """Return where each source's files are, and where its index is if it lies apart."""
        locate = self.roots.locate
        indexes = [locate(source.index) if source.index else None for source in spec.sources]
        return [locate(source.url) for source in spec.sources], indexes


def _preparers(opened: OpenJob) -> tuple[Preparer, ...]:
    preparers = [opened.preparer(source) for source in range(len(opened.sources))]
    return tuple(preparer for preparer in preparers if preparer is not None)


def _check(name: str, message: RegisterJob) -> None:
    if message.protocol != PROTOCOL_VERSION:
        raise UnsupportedError(
            f"the client speaks protocol {message.protocol}, this agent {PROTOCOL_VERSION}; "
            "install the same headrace on both"
        )
    if name != message.spec.id:
        raise ConfigError(
            f"the job's id is {message.spec.id}, not {name}; headrace versions may differ"
        )
    if message.world < 1 or not 0 <= message.start_step <= MAX_STEP:
        raise ConfigError(
            f"world={message.world} must be at least 1, start_step={message.start_step} in "
            f"[0, {MAX_STEP}]"
        )
    if message.spec.schedule.batch_size > MAX_BATCH:
        raise ConfigError(
            f"batch_size={message.spec.schedule.batch_size}: agents look at whole global batches, "
            f"of {MAX_BATCH} samples at most"
        )
    if message.roster:
        _check_roster(message.roster)


def _check_roster(roster: tuple[RosterEntry, ...]) -> None:
    names = {entry.name for entry in roster}
    if len(roster) > MOST_AGENTS:
        raise ConfigError(
            f"the roster has {len(roster)} agents; a job may have {MOST_AGENTS}: give it fewer"
        )
    if len(names) < len(roster) or not roster:
        raise ConfigError(
            f"the roster of {len(roster)} agents has a name twice, or none; "
            "give each agent its own --name"
        )


def _check_cuts(cuts: Mapping[str, int], opened: OpenJob) -> None:
    for kind, cut in cuts.items():
        if cut not in opened.program.cuts:
            raise ConfigError(
                f"cut {cut} for {kind} is not one of {opened.program.cuts}, where this pipeline "
                "may be cut"
            )


def _with_roster(message: RegisterJob, config: AgentConfig, known: ServedJob | None) -> RegisterJob:
    """Let an empty roster, of a client that does not know names yet, stand for what is known."""
    if message.roster:
        return message
    alone = (RosterEntry(name=config.name, hosts=config.hosts),)
    roster, places = (known.message.roster, known.message.places) if known else (alone, "")
    return msgspec.structs.replace(message, roster=roster, places=places)


def _continues(known: ServedJob, message: RegisterJob) -> bool:
    """Return whether a rank of the job as it goes on sent this.

    Their steps may differ, and so may their cuts: those that the first rank told it of count.
    """
    return known.message.world == message.world and message.fingerprint in known.clients
