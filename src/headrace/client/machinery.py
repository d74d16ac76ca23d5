"""Everything of a loader that runs in the background, started and stopped as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.client.accord import Accord
from headrace.client.config import LoaderConfig
from headrace.client.costs import Costs
from headrace.client.counts import Counts
from headrace.client.crew import Crew
from headrace.client.cutlog import CutLog
from headrace.client.fleet import AgentStatistics, Fleet
from headrace.client.gather import Gatherer
from headrace.client.headstart import HeadStart, HeadStartStatistics, Outlook, heavy_from
from headrace.client.held import Held
from headrace.client.limiter import DirectLimiter
from headrace.client.maker import Maker
from headrace.client.memory import give_back, memory_for_batches
from headrace.client.pace import Pace, Patience
from headrace.client.prefetch import Prefetcher, PrefetchLimits, PrefetchStatistics
from headrace.client.remote import RawFetch
from headrace.client.reporting.reporter import JobShape, Reporter
from headrace.client.reporting.standing import ControlStatistics
from headrace.client.splitting import Splitting
from headrace.client.spotcheck import CheckStatistics, SpotChecks
from headrace.client.stepdetail import StepDetails
from headrace.client.tail import Tail
from headrace.client.work import Gathered, Workshop
from headrace.policy.headstart import HeadStartLimits
from headrace.prepare.job import OpenJob
from headrace.prepare.profiles import fields_of, profiles_of
from headrace.trace.recording import Recording
from headrace.transform.explain import Running
from headrace.transform.fingerprint import fingerprint
from headrace.transform.ops.user import UserOp
from headrace.transform.partial import divided_by
from headrace.transform.split import SplitPlan, plan_split
from headrace.wire.messages import Fingerprint, JobRoster, RegisterJob

FETCHING_THREADS = 3
"""Steps fetched from agents at the same time: one is read, one is on its way, one is asked for."""

EARLY_SHARE = 4
"""This part of the memory for steps is that of heavy samples of further ones, if a job has any and
no agent answers."""

EARLY_SAMPLES = 4
"""Heavy samples that may be ahead of their step for each thread that may make them so."""

JOIN_S = 5.0
"""Longest wait for a thread to end when a loader is closed [s]."""

GOODBYE_S = 1.0
"""Longest time that closing spends on telling the controller [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineryStatistics:
    """What goes on in the background."""

    prefetch: PrefetchStatistics
    early: HeadStartStatistics
    agents: tuple[AgentStatistics, ...]
    checks: CheckStatistics
    waiting_tasks: int
    """Samples that wait for a decoding thread."""


class Ahead(NamedTuple):
    """Steps that lie ready from the next one on."""

    steps: int
    nbytes: int
    """Memory that all steps hold that lie ready [bytes]."""


class Machinery:
    """The threads of one loader. ``take`` is for one thread; ``close`` may be called by any."""

    def __init__(self, job: OpenJob, config: LoaderConfig, recording: Recording | None) -> None:
        self._job = job
        self._config = config
        self.pace = Pace(0)
        self.plan = _plan(job)
        self._targets = _targets(job, self.plan)
        self._part_cuts = self.plan.cuts if config.agents else _part_cuts(job, self._targets)
        self._costs = Costs(job)
        self._heavy_s = heavy_from(job)
        self._crew = Crew(config.threads())
        self._fleet = Fleet(
            config.registry(),
            Accord(job, rank=config.rank),
            job=job.spec.id,
            message=_Registration(job, self._cuts, config.world, self.pace),
        )
        self._splitting = Splitting(
            job.program,
            self.plan,
            self._targets,
            fixed=_divided(job, self.plan),
            decides=config.rank == 0,
            members=lambda: self._fleet.members,
            tell=self._fleet.recut,
            log=CutLog(recording, job.spec.id, rank=config.rank),
        )
        allowed = allowed_ops(job)
        self._held = Held()
        self._fetch_raw = RawFetch(
            job.spec.id, self._fleet, self.pace, self._held, rank=config.rank, world=config.world
        )
        self._limiter = DirectLimiter(self._held)
        self._maker = Maker(
            job,
            self._targets,
            fetch_raw=self._fetch_raw,
            limiter=self._limiter,
            allowed_ops=allowed,
        )
        self._checks = SpotChecks(
            config.check_every, crew=self._crew, maker=self._maker, fleet=self._fleet
        )
        memory = memory_for_batches(config.allocate, keep_bytes=config.prefetch_bytes // 4)
        self._tail = Tail(job.program, memory)
        self._details = StepDetails(recording, job, rank=config.rank)
        self._prefetcher: Prefetcher | None = None
        self._early: HeadStart | None = None
        self._expected = -1
        self.ahead = Ahead(0, 0)
        """What lay ready when the loop asked for its last step."""

        self._reporter = self._new_reporter()

    def meet(self, step: int) -> None:
        """Tell controller and agents of the job, so that they prepare from ``step`` on."""
        if self._reporter is not None:
            self._reporter.start(step)
        self._fleet.start(step, require=self._config.require_agents)

    def aim(self, step: int) -> None:
        """Make sure that ``step`` is the next one that is made."""
        if self._prefetcher is not None and self._expected == step:
            return
        self._stop_prefetching()
        self.pace.restart(step)
        self._expected = step
        self._prefetcher = self._started(step)

    def take(self, step: int) -> Gathered:
        """Wait for a step and hand it over; an error ends the prefetching."""
        self.aim(step)
        assert self._prefetcher is not None
        self.ahead = Ahead(
            self._prefetcher.ready_nowait(step), self._prefetcher.ready_bytes_nowait()
        )
        if self._reporter is not None:
            self._reporter.ask(step)
        self._expected = -1  # until the step is here: an interrupt may come after it was taken
        try:
            gathered = self._prefetcher.take(step, self._config.timeout_s)
        except Exception:
            self._stop_prefetching()
            raise
        self._expected = step + 1
        return gathered

    def took(self, step: int, *, worked_s: float | None, wait_s: float, counts: Counts) -> None:
        """Note that the loop has a step, after its work on the one before and a wait for this."""
        self.pace.took(step, worked_s)
        if self._reporter is not None:
            self._reporter.note(
                step=step, wait_s=wait_s, ready_steps=self.ahead.steps, counts=counts
            )

    def running(self, kind: str) -> Running | None:
        """Return what was measured of a kind of sample, and where it is cut now."""
        return self._splitting.running(kind, self._cuts()[kind])

    def learned(self, kind: str) -> float | None:
        """Return what heavy samples of a kind lately took, over what headers told; None: none."""
        return self._costs.ratio(kind)

    def _cuts(self) -> dict[str, int]:
        """Return how many leading ops agents are asked to run on each kind."""
        return self._fleet.cuts or self.plan.cuts

    def control(self) -> ControlStatistics | None:
        """Describe how the job and its controller stand; None without one."""
        return None if self._reporter is None else self._reporter.statistics()

    def statistics(self) -> MachineryStatistics:
        """Describe what goes on now."""
        idle = PrefetchStatistics(
            ready_steps=0,
            ready_bytes=0,
            making_steps=0,
            budget_bytes=self._config.prefetch_bytes,
        )
        return MachineryStatistics(
            prefetch=self._prefetcher.statistics() if self._prefetcher else idle,
            early=self._early.statistics() if self._early else HeadStartStatistics(),
            agents=self._fleet.statistics(),
            checks=self._checks.statistics(),
            waiting_tasks=self._crew.waiting(),
        )

    def close(self) -> None:
        """Stop all threads and wait for them, a few seconds at most; close what they read."""
        try:
            self._stop()
        finally:
            self._job.close()
            give_back()

    def _stop(self) -> None:
        if self._prefetcher is not None:
            self._prefetcher.stop()
        self._limiter.close()
        self._fetch_raw.close()
        self._crew.close(JOIN_S)
        if self._reporter is not None:
            self._reporter.close(GOODBYE_S)
        self._fleet.close(JOIN_S)
        self._stop_prefetching()

    def _stop_prefetching(self) -> None:
        prefetcher, self._prefetcher, self._early = self._prefetcher, None, None
        if prefetcher is not None:
            prefetcher.stop()
            prefetcher.join(JOIN_S)
            self._crew.drop_steps()
        if self._reporter is not None:
            self._reporter.stop_asking()

    def _started(self, step: int) -> Prefetcher:
        config = self._config
        limits = PrefetchLimits(steps=config.prefetch_steps, budget_bytes=config.prefetch_bytes)
        prefetcher = Prefetcher(step, limits, self._held, reserved=self._reserved)
        self._early = self._head_start(prefetcher)
        shop = self._workshop(prefetcher)
        prefetcher.start([Gatherer(shop) for _ in range(self._threads())])
        return prefetcher

    def _workshop(self, prefetcher: Prefetcher) -> Workshop:
        config = self._config
        return Workshop(
            job=self._job,
            targets=self._targets,
            part_cuts=self._part_cuts,
            rank=config.rank,
            world=config.world,
            fleet=self._fleet,
            crew=self._crew,
            early=self._early,
            maker=self._maker,
            pace=self.pace,
            patience=Patience(config.patience_s, config.grace_s),
            costs=self._costs,
            checks=self._checks,
            splitting=self._splitting,
            tail=self._tail,
            held=self._held,
            details=self._details,
            timeout_s=config.timeout_s,
            closed=prefetcher.stopped,
        )

    def _is_alone(self) -> bool:
        """Return whether no agent answers now that would begin heavy samples."""
        return not self._fleet.members

    def _early_bytes(self) -> int:
        """Return the part of the memory for steps that heavy samples of further ones may hold."""
        return max(1, self._config.prefetch_bytes // EARLY_SHARE)

    def _reserved(self) -> int:
        """Return how much of the memory for steps is that of heavy samples now [bytes].

        With agents, only that of what was begun before they came.
        """
        early = self._early
        if early is None:
            return 0
        return self._early_bytes() if self._is_alone() else early.statistics().held_bytes

    def _head_start(self, prefetcher: Prefetcher) -> HeadStart | None:
        if self._heavy_s is None:
            return None
        config, making = self._config, max(1, self._crew.size // 2)
        return HeadStart(
            Outlook(
                job=self._job,
                rank=config.rank,
                world=config.world,
                targets=self._targets,
                part_cuts=self._part_cuts,
                plan=self.plan,
                heavy_s=self._heavy_s,
            ),
            HeadStartLimits(
                making=making,
                making_short=self._crew.size,
                samples=EARLY_SAMPLES * making,
                budget_bytes=self._early_bytes(),
            ),
            lead_steps=config.prefetch_steps,
            crew=self._crew,
            maker=self._maker,
            costs=self._costs,
            pace=self.pace,
            alone=self._is_alone,
            closed=prefetcher.stopped,
        )

    def _new_reporter(self) -> Reporter | None:
        config = self._config
        endpoint = config.controller_endpoint()
        if endpoint is None:
            return None
        shape = JobShape(
            rank=config.rank,
            world=config.world,
            ranks_here=config.ranks_here(),
            title=config.job_title,
            weight=config.job_weight,
            storage_tier=config.storage_tier,
        )
        return Reporter(
            self._job,
            endpoint,
            shape,
            pace=self.pace,
            limiter=self._limiter,
            queue_capacity=self._queue_capacity,
        )

    def _queue_capacity(self) -> int:
        prefetcher = self._prefetcher
        return self._config.prefetch_steps if prefetcher is None else prefetcher.capacity()

    def _threads(self) -> int:
        """Return how many steps are made at once: enough to keep agents, or the crew, busy."""
        config = self._config
        if config.agents:
            return min(config.prefetch_steps, FETCHING_THREADS)
        per_rank = max(config.batch_size // config.world, 1)
        return min(config.prefetch_steps, 1 + math.ceil(2 * self._crew.size / per_rank))


class _Registration:
    """Makes the message that registers a job; the golden vectors are run once."""

    def __init__(
        self, job: OpenJob, cuts: Callable[[], dict[str, int]], world: int, pace: Pace
    ) -> None:
        self._job = job
        self._cuts = cuts
        self._world = world
        self._pace = pace
        self._fingerprint: Fingerprint | None = None

    def __call__(self, roster: JobRoster, step: int) -> RegisterJob:
        if self._fingerprint is None:
            ours = fingerprint(self._job.program)
            self._fingerprint = Fingerprint(versions=ours.versions, golden=ours.golden)
        return RegisterJob(
            spec=self._job.spec,
            world=self._world,
            cuts=self._cuts(),
            fingerprint=self._fingerprint,
            roster=roster.roster,
            places=roster.places,
            start_step=step,
            step_time_s=self._pace.read().step_time_s or None,
        )


def allowed_ops(job: OpenJob) -> tuple[str, ...]:
    """Return the import paths of the job's own ops, which its trainer may run."""
    return tuple(op.path for op in job.program.ops if isinstance(op, UserOp))


def _plan(job: OpenJob) -> SplitPlan:
    profiles = profiles_of([source.index for source in job.sources])
    return plan_split(job.program, profiles)


def _targets(job: OpenJob, plan: SplitPlan) -> dict[str, int]:
    """Return the cut at which a batch takes each kind: the rest runs over all its rows at once."""
    fields = fields_of([source.index for source in job.sources])
    return {kind: max(cut, job.program.tail_of(fields[kind])) for kind, cut in plan.cuts.items()}


def _divided(job: OpenJob, plan: SplitPlan) -> frozenset[str]:
    """Return the kinds of which samples are made in parts: agents and ranks agree on those."""
    if divided_by(job.program, plan.cuts.get("video", 0)) is None:
        return frozenset()
    many = any(foreseen.parts.max(initial=1) > 1 for foreseen in job.foreseen)
    return frozenset({"video"}) if many else frozenset()


def _part_cuts(job: OpenJob, targets: Mapping[str, int]) -> dict[str, int]:
    """Return, for each kind, the last cut up to which this host may make samples in parts."""
    return {
        kind: max((cut for cut in job.program.cuts if _divides(job, cut, target)), default=0)
        for kind, target in targets.items()
    }


def _divides(job: OpenJob, cut: int, target: int) -> bool:
    return cut <= target and divided_by(job.program, cut) is not None
