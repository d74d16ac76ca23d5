"""A run of the simulated estate under one policy.

Time advances in equal quanta. Within one, rates are constant: they are solved once, as shares of
a fluid; when a batch gets whole and a step begins is then computed exactly, to any fraction. In
a run whose disks are overloaded, quanta of 1 s gave mean waits within 3 % of quanta of 1/16 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import (
    BurstAnnounced,
    BurstEnded,
    HealthReported,
    JobLeft,
    Tick,
)
from headrace.sim.episode import CheckpointBurst, Episode, Restart
from headrace.sim.estate import PLAIN, Abilities, Enforcement, Estate
from headrace.sim.fleet import Fleet
from headrace.sim.governing import Governor
from headrace.sim.job import Batches, SimulatedJob, batches_of
from headrace.sim.mishaps import Mishaps
from headrace.sim.observing import Asking, Observer
from headrace.sim.paths import Paths
from headrace.sim.plant import Floats, Plant
from headrace.sim.policies import Omniscient, Policy
from headrace.sim.quotas import UNLIMITED, Quotas
from headrace.sim.recording import Recording
from headrace.sim.saving import Saving

_PROGRESS_S = 600.0


class World:
    """Jobs on an estate, what befalls them, and the policy that divides the bandwidth.

    Two worlds of the same estate, jobs, episodes and seed meet the same chance events, whatever
    their policies do; they may share the jobs' batches. A world runs once.
    """

    def __init__(
        self,
        estate: Estate,
        jobs: Sequence[SimulatedJob],
        *,
        batches: Sequence[Batches] | None = None,
        episodes: Sequence[Episode] = (),
        policy: Policy | Omniscient | None = None,
        abilities: Abilities = PLAIN,
        enforcement: Enforcement | None = None,
        seed: int = 0,
        quantum_s: float = 1.0,
    ) -> None:
        _check(jobs, quantum_s)
        enforcement = enforcement or Enforcement()
        self._estate, self._abilities, self._quantum_s = estate, abilities, quantum_s
        self._fleet = Fleet(
            jobs,
            batches or [batches_of(job) for job in jobs],
            early_prefetch=abilities.early_prefetch,
            seed=seed,
        )
        self._paths = Paths(estate, jobs)
        quotas = _quotas(self._paths, len(jobs), enforcement)
        self._plant = Plant(
            estate,
            self._fleet,
            self._paths,
            quotas,
            abilities=abilities,
            oracle=policy if isinstance(policy, Omniscient) else None,
            seed=seed,
            quantum_s=quantum_s,
        )
        self._saving = Saving()
        self._governor = Governor(
            policy if isinstance(policy, Policy) else None,
            jobs,
            self._paths,
            quotas,
            self._saving,
            abilities=abilities,
            enforcement=enforcement,
        )
        self._mishaps = Mishaps(episodes, jobs, self._paths)
        self._observer = Observer(self._fleet, self._paths, self._plant.meter, seed=seed)
        self._joining = sorted(range(len(jobs)), key=lambda job: -jobs[job].begins_at_s)
        self._numbers = {job.name: number for number, job in enumerate(jobs)}
        self._reports: list[tuple[float, HealthReported]] = []

    def run(self, until_s: float, *, progress: Callable[[float], None] | None = None) -> Recording:
        """Simulate until that time and return what happened.

        Args:
            until_s: Simulated time [s].
            progress: Told the simulated time now and then [s].
        """
        self._governor.introduce(self._estate)
        often = max(1, round(_PROGRESS_S / self._quantum_s))
        for number in range(round(until_s / self._quantum_s)):
            if progress is not None and number % often == 0:
                progress(number * self._quantum_s)
            self._advance(number * self._quantum_s)
        if progress is not None:
            progress(until_s)
        return self._recording(until_s)

    def _advance(self, now: float) -> None:
        """Simulate one quantum."""
        fleet, mishaps, end = self._fleet, self._mishaps, now + self._quantum_s
        self._governor.advance(now)
        for episode in mishaps.due(now):
            self._befall(episode, now)
        while self._joining and fleet.jobs[self._joining[-1]].begins_at_s <= now:
            self._governor.tell(self._observer.joined(self._joining.pop(), now), now)
        self._plant.settle(mishaps.scan_bytes_per_s)
        self._begin_steps(fleet.fetched, now, end)
        before = fleet.fetched.copy()
        self._plant.move(now, self._saving.take(mishaps.capacity, self._quantum_s))
        self._begin_steps(before, now, end)
        self._tell_reports()
        self._end_bursts(end)
        if self._governor.tick_is_due(end):
            self._governor.tell(Tick(), end)

    def _begin_steps(self, before: Floats, now: float, end: float) -> None:
        """Begin all steps that can begin until ``end``, with what was fetched ``before`` and since.

        Called twice in a quantum: first for batches that lie ready, so that the room they leave is
        fetched for at once, then for those that arrived meanwhile.
        """
        fleet = self._fleet
        able = (fleet.asked <= end) & (fleet.fetched >= fleet.needed)
        for job in able.nonzero()[0].tolist():
            had, has = float(before[job]), float(fleet.fetched[job])
            pace = (has - had) / self._quantum_s
            while (asked := float(fleet.asked[job])) <= end:
                needed = float(fleet.needed[job])
                if has < needed:
                    break
                ready = now if had >= needed else now + (needed - had) / pace
                depth = fleet.ready_batches(job, min(has, had + pace * max(0.0, asked - now)))
                self._begin_step(Asking(job, asked, max(asked, ready), depth))

    def _begin_step(self, asking: Asking) -> None:
        fleet, (job, asked, begun, _) = self._fleet, asking
        nbytes = fleet.next_bytes(job)
        step_s = fleet.begin_step(job, begun)
        measured = self._plant.meter.take(job)
        iteration = fleet.iteration[job] - 1
        truths = self._mishaps.truths(job, iteration, begun)
        wait = begun - asked
        self._governor.tape.add(
            (job, begun, wait, wait > 0, step_s, iteration, truths, nbytes, measured.hit_rate)
        )
        if self._governor.listens:
            self._reports.append((begun, self._observer.report(asking, measured)))
        self._observer.computed(job, step_s)

    def _tell_reports(self) -> None:
        self._reports.sort(key=lambda report: report[0])
        for begun, report in self._reports:
            self._governor.tell(report, begun)
        self._reports.clear()

    def _befall(self, episode: Restart | CheckpointBurst, now: float) -> None:
        job = self._numbers[episode.job]
        if isinstance(episode, CheckpointBurst):
            self._announce(episode, now)
            return
        self._governor.tell(JobLeft(job=episode.job), now)
        self._governor.tape.lost_bytes += self._fleet.start(job, now, episode.initialise_s)
        self._plant.chill(job, episode)
        self._mishaps.started(job, episode)
        self._governor.tell(self._observer.joined(job, now), now)

    def _announce(self, episode: CheckpointBurst, now: float) -> None:
        told = self._abilities.announces_bursts
        tier = self._paths.tiers.index(episode.tier)
        self._saving.begin(episode, tier, now, obeys=told)
        if told:
            event = BurstAnnounced(
                job=episode.job,
                burst=episode.burst,
                tier=episode.tier,
                nbytes=episode.nbytes,
                deadline_s=episode.deadline_s,
                urgent=episode.urgent,
            )
            self._governor.tell(event, now)

    def _end_bursts(self, now: float) -> None:
        for episode, late_s in self._saving.done(now):
            self._governor.tape.bursts_late_s.append(late_s)
            if self._abilities.announces_bursts:
                self._governor.tell(BurstEnded(job=episode.job, burst=episode.burst), now)

    def _recording(self, until_s: float) -> Recording:
        fleet, tape = self._fleet, self._governor.tape
        consumed = [
            batches.end(step - 1) for batches, step in zip(fleet.batches, fleet.step, strict=True)
        ]
        return Recording(
            jobs=tuple(job.name for job in fleet.jobs),
            batch_samples=tuple(job.batch_size for job in fleet.jobs),
            duration_s=until_s,
            actions=tuple(tape.actions),
            quota_changes=tape.quota_changes,
            read_bytes=dict(zip(self._paths.tiers, self._plant.read_bytes.tolist(), strict=True)),
            lost_bytes=tape.lost_bytes,
            queued_bytes=float(fleet.fetched.sum()) - sum(consumed),
            bursts_late_s=tuple(tape.bursts_late_s),
            **tape.columns(),
        )


def _quotas(paths: Paths, jobs: int, enforcement: Enforcement) -> Quotas:
    row = [enforcement.initial.get(tier, UNLIMITED) for tier in paths.tiers]
    initial = np.tile(np.array(row), (jobs, 1))
    return Quotas(initial, delay_s=enforcement.delay_s, burst_s=enforcement.burst_s)


def _check(jobs: Sequence[SimulatedJob], quantum_s: float) -> None:
    names = {job.name for job in jobs}
    if not jobs or len(names) < len(jobs):
        raise ConfigError("a world needs at least one job, and each job a name of its own")
    if quantum_s <= 0:
        raise ConfigError(f"quantum_s={quantum_s:g} must be above 0; 1 is usual")
