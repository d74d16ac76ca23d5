"""Takes in jobs: checks what they ask for, opens their indexes, compares golden vectors."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging

import msgspec

from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.jobs import Proof, ServedJob, ServedSource, open_for_agent
from headrace.agent.roots import Roots
from headrace.agent.tasks import Failed, Proven
from headrace.core.errors import CallerError, ConfigError
from headrace.dataset.index import Index
from headrace.prepare.job import OpenJob
from headrace.prepare.sample import Preparer
from headrace.wire.messages import PROTOCOL_VERSION, JobRegistered, RegisterJob

log = logging.getLogger("headrace.agent.registry")

PROOF_PATIENCE_S = 2.0
"""A registration waits this long for the golden vectors before it is answered without [s]."""

PROOF_RETRIES = 3
PROOF_RETRY_S = 0.5

RESUMED_AFTER_S = 10.0
"""A job that asked for nothing this long and registers again was started again."""


class UnsupportedError(CallerError):
    """The client speaks another protocol."""


class Registry:
    """The jobs of one agent. Slow work runs in threads, one registration of a job at a time."""

    def __init__(self, engine: Engine, config: AgentConfig, unix_socket: str | None) -> None:
        self._engine = engine
        self._config = config
        self._roots = Roots(config.roots)
        self._unix_socket = unix_socket
        self._locks: dict[str, asyncio.Lock] = {}
        self._unproven: asyncio.Queue[ServedJob] = asyncio.Queue()

    async def register(self, name: str, message: RegisterJob) -> JobRegistered:
        """Serve a job; the same message again changes nothing.

        Raises:
            ConfigError: the message contradicts itself.
            OutsideRootsError, NotFoundError, StaleIndexError: a source cannot be served.
        """
        _check(name, message)
        async with self._locks.setdefault(name, asyncio.Lock()):
            try:
                job = await self._served(name, message)
            finally:
                if name not in self._engine.jobs:
                    self._locks.pop(name, None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROOF_PATIENCE_S):
                await job.proof.settled.wait()
        hopeless = job.proof.settled.is_set() and job.raw_only
        return JobRegistered(
            agent=self._config.name,
            mode="raw-only" if hopeless else "transform",
            reason=job.raw_only,
            unix_socket=self._unix_socket,
            boot=self._engine.boot,
        )

    def index_of(self, url: str) -> bytes:
        """Return the index of a dataset, for a client that cannot see its files; blocks.

        Raises:
            OutsideRootsError, NotFoundError: it cannot be served.
        """
        return Index.load(self._roots.open(url)).to_bytes()

    async def _served(self, name: str, message: RegisterJob) -> ServedJob:
        known = self._engine.jobs.get(name)
        rests = known is None or self._is_resting(known)
        message = _with_roster(message, self._config.name, None if rests else known)
        if known is not None and not rests and _same(known.message, message):
            return known
        job = await self._open(message, known)
        self._engine.add_job(name, job)
        log.info("job %s: world %d, %s", name, message.world, job.raw_only or "transforms")
        return job

    def _is_resting(self, job: ServedJob) -> bool:
        return not job.requests and self._engine.clock.now() - job.last_used > RESUMED_AFTER_S

    async def run(self) -> None:
        """Prove new jobs, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._prove(await self._unproven.get()))

    async def _prove(self, job: ServedJob) -> None:
        """Make the golden vectors; a worker that dies of something else is no verdict."""
        outcome: Proven | Failed = await self._engine.prove(job.sources[0])
        for _ in range(PROOF_RETRIES):
            if isinstance(outcome, Proven) or outcome.code != "crashed":
                break
            await asyncio.sleep(PROOF_RETRY_S)
            outcome = await self._engine.prove(job.sources[0])
        job.proof.settle(outcome.fingerprint if isinstance(outcome, Proven) else outcome.reason)
        self._engine.change_mode(job)

    async def _open(self, message: RegisterJob, known: ServedJob | None) -> ServedJob:
        if known is None:
            return await self._open_first(message)
        _check_cuts(message, known.open)
        return dataclasses.replace(known, message=message)

    async def _open_first(self, message: RegisterJob) -> ServedJob:
        opened, sources = await asyncio.to_thread(self._open_anew, message)
        _check_cuts(message, opened)
        self._engine.open_sources(sources, message.spec.pipeline)
        job = ServedJob(
            open=opened,
            message=message,
            sources=sources,
            preparers=_preparers(opened),
            proof=Proof(),
        )
        if self._config.workers:
            self._unproven.put_nowait(job)
        else:
            job.proof.settle("this agent has no workers (--workers 0)")
        return job

    def _open_anew(self, message: RegisterJob) -> tuple[OpenJob, tuple[ServedSource, ...]]:
        places = [self._roots.locate(source.url) for source in message.spec.sources]
        opened = open_for_agent(
            message.spec, roots=self._roots, allowed_ops=self._config.allowed_ops
        )
        numbers = self._engine.next_numbers(len(places))
        return opened, tuple(
            ServedSource(number, directory, root)
            for number, (directory, root) in zip(numbers, places, strict=True)
        )


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
    if message.world < 1 or message.start_step < 0:
        raise ConfigError(
            f"world={message.world} must be at least 1, start_step={message.start_step} at least 0"
        )


def _check_cuts(message: RegisterJob, opened: OpenJob) -> None:
    for kind, cut in message.cuts.items():
        if cut not in opened.program.cuts:
            raise ConfigError(
                f"cut {cut} for {kind} is not one of {opened.program.cuts}, where this pipeline "
                "may be cut"
            )


def _with_roster(message: RegisterJob, agent: str, known: ServedJob | None) -> RegisterJob:
    """Let an empty roster, of a client that does not know names yet, stand for what is known."""
    if message.roster:
        return message
    roster = (agent,) if known is None else known.message.roster
    return msgspec.structs.replace(message, roster=roster)


def _same(one: RegisterJob, other: RegisterJob) -> bool:
    """Return whether two ranks of one job sent these: their steps may differ."""
    return (one.world, one.cuts, one.roster, one.fingerprint) == (
        other.world,
        other.cuts,
        other.roster,
        other.fingerprint,
    )
