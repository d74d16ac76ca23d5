"""Carries out what the consumer queue decides: the only place where its actions meet the world."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from headrace.agent.agentlog import AgentLog
from headrace.agent.arena import Arena
from headrace.agent.atlas import Atlas
from headrace.agent.bandwidth import Bandwidth
from headrace.agent.books import Books
from headrace.agent.config import AgentConfig
from headrace.agent.fasttier.records import Kept
from headrace.agent.fasttier.through import Errand, Passage
from headrace.agent.fasttier.trips import Trips, open_fast_tier
from headrace.agent.fetches import Fetches, Request
from headrace.agent.jobs import Proof, ServedJob, ServedSource
from headrace.agent.plan import AgentPlan
from headrace.agent.prepared import Prepared
from headrace.agent.proofs import Proofs
from headrace.agent.tasks import (
    Done,
    Failed,
    OpenPipeline,
    Outcome,
    Proven,
    Task,
    TooLarge,
)
from headrace.agent.threads import DaemonThreads
from headrace.agent.tiers import Tiers
from headrace.agent.usage import Reading
from headrace.agent.workers import WorkerLimits, WorkerPool
from headrace.core.clock import Clock, SystemClock
from headrace.core.media import TierName
from headrace.policy.lookahead import Lookahead
from headrace.policy.lookahead_events import (
    Action,
    AskCancelled,
    Broken,
    Crashed,
    Drop,
    Event,
    Finished,
    Grow,
    GrowAsked,
    JobChanged,
    JobRemoved,
    ModeChanged,
    PlanChanged,
    RawReadBegan,
    RawReadEnded,
    Read,
    Refuse,
    Sent,
    Serve,
    ServeMissing,
    ServeRaw,
    Start,
    Tick,
    Visit,
)
from headrace.policy.lookahead_limits import LookaheadLimits, LookaheadStatistics
from headrace.policy.window import WindowLimits
from headrace.prepare.job import OpenJob, Place
from headrace.wire.messages import FetchRequest, JobRoster, RegisterJob

log = logging.getLogger("headrace.agent.engine")

RESTS_AFTER_S = 2.0
"""An agent that is asked for nothing this long, and has nothing to do, rests [s]."""

THREADS = 32
"""Calls of one agent to open stores, and the like, that run or hang at the same time."""


class Engine:
    """One agent's jobs, queue, memory and workers. Used from the event loop's thread only."""

    def __init__(
        self, config: AgentConfig, clock: Clock | None = None, log: AgentLog | None = None
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.boot = secrets.token_hex(8)
        self.jobs: dict[str, ServedJob] = {}
        self.books = Books(self.jobs, log or AgentLog(None))
        """What was done, counted and recorded."""

        self.tiers = Tiers(config.tiers)
        self.threads = DaemonThreads(THREADS, "headrace-agent")
        """For calls that wait for storage."""

        self.reordered: frozenset[str] = frozenset()
        """Jobs whose upcoming reads are to be merged into sequential runs."""
        arena = Arena(config.memory_bytes - config.cache_memory_bytes)
        self.prepared = Prepared(arena)
        """What tasks made, or are making."""

        self._queue = Lookahead(
            LookaheadLimits(
                memory=arena.nbytes,
                workers=config.workers,
                burst_s=config.burst_s,
                window=WindowLimits(lead_s=config.lead_s),
            )
        )
        self.bandwidth = Bandwidth(self._queue, self.handle, self.clock, self.tiers.links)
        disk_tier = self.tiers.of_cache(str(config.cache or ""))
        self.fast = Trips(open_fast_tier(config, self._queue, self.clock, disk_tier))
        self.pool = WorkerPool(
            arena,
            WorkerLimits(
                count=config.workers,
                memory_bytes=config.worker_memory_bytes,
                task_s=config.task_s,
                fast=self.fast.files,
            ),
            self._report,
        )
        self._fetches = Fetches()
        self._proofs = Proofs(self.pool, config.task_s)
        self._numbers = itertools.count(1)
        self._wake: asyncio.TimerHandle | None = None
        self._used = asyncio.Event()
        self._used_at = self.clock.now()

    @property
    def rests(self) -> bool:
        """Whether nobody has asked for anything for a while, and no worker has anything to do."""
        quiet_s = self.clock.now() - self._used_at
        return quiet_s > RESTS_AFTER_S and not self._fetches and not self.pool.is_busy

    async def wait_until_used(self, timeout_s: float) -> None:
        """Return as soon as somebody asks for something, or after ``timeout_s``."""
        self._used.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._used.wait()

    @property
    def request_count(self) -> int:
        """Fetches being answered now."""
        return len(self._fetches)

    def queue_statistics(self) -> LookaheadStatistics:
        """Return what the consumer queue holds and did."""
        return self._queue.statistics()

    def add_job(self, name: str, job: ServedJob) -> None:
        """Serve a job whose sources are open, or serve it anew with another world or start."""
        self.jobs[name] = job
        self.fast.add(name, job)
        job.last_used = self._note_use()
        message = job.message
        self.handle(
            JobChanged(
                job=name,
                plan=job.plan,
                start_step=message.start_step,
                step_time_s=message.step_time_s,
                raw_only=job.raw_only,
            )
        )

    def plan_of(
        self, job: OpenJob, message: RegisterJob, atlas: Atlas, sources: Sequence[ServedSource]
    ) -> AgentPlan:
        """Return a job's schedule as it falls to this agent."""
        tiers, copies = [source.tier for source in sources], self.fast.copies(job, sources)
        where = atlas.find(message.places)
        return AgentPlan(job, message, self.config.name, where, tiers, copies=copies)

    def follow(self, name: str, shared: JobRoster) -> None:
        """Go on with a job whose samples fall to the agents, or are cut, in another way.

        Raises:
            KeyError: there is no such job.
        """
        job = self.jobs[name]
        cuts = job.message.cuts if shared.cuts is None else shared.cuts
        job.message = msgspec.structs.replace(
            job.message, roster=shared.roster, places=shared.places, cuts=cuts
        )
        job.plan = self.plan_of(job.open, job.message, job.atlas, job.sources)
        self.fast.add(name, job)
        self.handle(PlanChanged(job=name, plan=job.plan))

    def serves(self, proof: Proof) -> bool:
        """Return whether a job that needs this proof is still served."""
        return any(job.proof is proof for job in self.jobs.values())

    def change_mode(self, proven: ServedJob) -> None:
        """Transform for a job from now on, or know that it cannot be done."""
        for name, job in self.jobs.items():
            if job.proof is proven.proof:
                self.handle(ModeChanged(job=name, raw_only=job.raw_only))

    def remove_job(self, name: str) -> None:
        """Forget a job and free what was prepared for it.

        Raises:
            KeyError: there is no such job.
        """
        job = self.jobs.pop(name)
        self.handle(JobRemoved(job=name))
        self.fast.forget(name)
        self.books.usage.forget(name)
        self.close_sources(job.sources)
        asyncio.get_running_loop().run_in_executor(self.threads, job.release)

    def open_sources(self, sources: Sequence[ServedSource], pipeline: str) -> None:
        """Let workers make samples of these sources."""
        for source in sources:
            self.pool.open_source(
                OpenPipeline(
                    source=source.number,
                    url=source.place.url,
                    links_within=source.place.links_within,
                    pipeline=pipeline,
                    allowed_ops=self.config.allowed_ops,
                    index=source.index,
                )
            )

    def close_sources(self, sources: Sequence[ServedSource]) -> None:
        """Let workers forget these sources."""
        for source in sources:
            self.pool.close_source(source.number)

    async def prove(self, source: ServedSource) -> Proven | Failed:
        """Let a worker make a source's golden vectors."""
        return await self._proofs.make(-self.next_numbers(1)[0], source.number)

    def next_numbers(self, count: int) -> tuple[int, ...]:
        """Return numbers never given before."""
        return tuple(itertools.islice(self._numbers, count))

    def tidy(self) -> None:
        """Remove jobs that have asked for nothing for long, and what nobody needs of others."""
        self.handle(Tick())
        self.fast.tidy()
        oldest = self.clock.now() - self.config.idle_job_s
        for name, job in list(self.jobs.items()):
            if job.last_used < oldest and not job.requests:
                log.info("job %s asked for nothing for long and is forgotten", name)
                self.remove_job(name)

    @contextmanager
    def fetch(self, name: str, message: FetchRequest) -> Iterator[Request]:
        """Ask for samples; leaving the context withdraws what was not answered.

        Raises:
            KeyError: there is no such job.
        """
        job = self.jobs[name]
        (number,) = self.next_numbers(1)
        request = Request(
            number=number,
            name=name,
            job=job,
            message=message,
            asked_at=self._note_use(),
            effort=self.books.effort,
            open=len(message.samples),
        )
        self._fetches.begin(request)
        try:
            self.handle(request.asked())
            yield request
        finally:
            self._withdraw(request)

    def set_reordering(self, jobs: frozenset[str]) -> None:
        """Merge the upcoming reads of these and no other jobs into sequential runs."""
        self.reordered = jobs

    def waiting(self) -> dict[str, int]:
        """Return how many samples of each job a request waits for and no task prepares yet."""
        return self._queue.waiting()

    def over(self, job: str) -> int:
        """Return the last step that a job will not ask for again."""
        return self._queue.over(job)

    def upcoming(self, job: str) -> list[Visit]:
        """Return a job's visits that are foreseen and not started, those due first in front."""
        return self._queue.upcoming(job)

    def tier_of(self, job: ServedJob, source: int, kept: Kept | None) -> TierName:
        """Return the tier that a sample of one of a job's sources is read from, or its copy."""
        return job.sources[source].tier if kept is None else self.fast.tier_of(kept)

    async def wait_for_egress(self, job: str, nbytes: int, *, step: int) -> float:
        """Wait until a job's quotas have ``nbytes`` to be sent; return how long that took [s]."""
        held = await self.bandwidth.wait_to_send(job, nbytes, step=step)
        for link, throttled_s in held.items():
            self.books.read(Reading(job, link, nbytes, throttled_s), 0.0)
        return sum(held.values())

    def sent(self, ticket: int) -> None:
        """Note that a sample was sent to a request, or cannot be sent to it any more."""
        self.handle(Sent(ticket=ticket))

    def handle(self, event: Event) -> None:
        """Give the queue an event and carry out its actions."""
        bundles: dict[int, list[Task]] = {}
        for action in self._queue.handle(event, self.clock.now()):
            if isinstance(action, Start):
                bundles.setdefault(action.bundle, []).append(self._begin(action))
            else:
                self._act(action)
        for tasks in bundles.values():
            self.pool.submit(tasks)
        self._plan_wake()

    def close(self) -> None:
        """Release timers and threads; memory and the fast tier's file go with the process."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        if self._wake is not None:
            self._wake.cancel()

    def begin_raw(self, job: ServedJob, visit: Visit, place: Place) -> tuple[int, Errand]:
        """Begin to read a sample for an answer of raw bytes; tasks wait for a copy that it leaves.

        Returns:
            Number of the read, to be ended, and what it has to do with the fast tier.
        """
        number = -self.next_numbers(1)[0]
        errand = self.fast.begin(number, job, visit, place) or Errand()
        encoded = job.plan.unkept(visit.sample) if errand.slot else None
        if encoded is not None:
            self.handle(RawReadBegan(read=number, encoded=encoded))
        return number, errand

    def end_raw(self, number: int, passage: Passage | None) -> None:
        """Take in what became of a read for an answer of raw bytes; None: it failed."""
        self.fast.end(number, passage)
        self.handle(RawReadEnded(read=number))

    def _note_use(self) -> float:
        """Return the time now, at which somebody wants something."""
        self._used_at = self.clock.now()
        self._used.set()
        return self._used_at

    def _act(self, action: Action) -> None:
        match action:
            case Serve() | ServeRaw() | ServeMissing():
                self._fetches.decide(action)
            case Read():
                self.bandwidth.let_go(action.read)
            case Drop():
                self.prepared.free(action.ticket)
            case Grow():
                self.pool.grant(action.ticket, self.prepared.grow(action.ticket, action.nbytes))
            case Refuse():
                self.prepared.free(action.ticket)
                self.pool.grant(action.ticket, ())

    def _begin(self, action: Start) -> Task:
        self._note_use()
        visit = action.visit
        job = self.jobs[visit.job]
        self.books.started(job, visit.sample)
        place = job.open.place(visit.sample)
        source = job.sources[place.source]
        errand = None
        if visit.part.is_whole:  # of a clip in parts only the needed ranges are read
            errand = self.fast.begin(action.ticket, job, visit, place)
        tier = self.tier_of(job, place.source, errand.kept if errand else None)
        nbytes = visit.part.of(place.location.length)
        reading = Reading(visit.job, tier, nbytes, action.throttled_s, visit)
        return Task(
            ticket=action.ticket,
            source=source.number,
            location=place.location,
            seed=job.message.spec.schedule.seed,
            epoch=visit.epoch,
            sample=visit.sample,
            part=visit.part,
            cut=job.cut(visit.sample),
            extents=self.prepared.begin(action.ticket, action.nbytes, reading),
            errand=errand,
        )

    def _report(self, message: Outcome | TooLarge) -> None:
        self._proofs.take(message)
        if not isinstance(message, TooLarge):
            self.fast.end(message.ticket, message.passage if isinstance(message, Done) else None)
        if message.ticket not in self.prepared:
            return  # a proof; or refused before, and its memory is already free
        match message:
            case TooLarge():
                self.handle(GrowAsked(ticket=message.ticket, nbytes=message.nbytes))
            case Done():
                self._finish(message)
            case Failed():
                self.prepared.free(message.ticket)
                self.handle(_failure(message))

    def _finish(self, done: Done) -> None:
        reading = self.prepared.finish(done)
        cached = self.fast.cached(reading.nbytes, hit=done.passage.hit)
        self.books.made(reading, done, cached=cached)
        self.handle(
            Finished(ticket=done.ticket, nbytes=done.nbytes, seconds=done.read_s + done.transform_s)
        )

    def _withdraw(self, request: Request) -> None:
        if request.open:
            self.handle(AskCancelled(request=request.number))
        self._fetches.end(request)
        for ticket in request.unsent():
            self.sent(ticket)

    def _plan_wake(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        at = self._queue.wake_at()
        if at is not None:
            delay = max(0.0, at - self.clock.now())
            self._wake = asyncio.get_running_loop().call_later(delay, self.handle, Tick())


def _failure(message: Failed) -> Broken | Crashed:
    if message.code == "crashed":
        return Crashed(ticket=message.ticket, reason=message.reason)
    return Broken(ticket=message.ticket, code=message.code, reason=message.reason)
