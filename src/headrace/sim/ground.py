"""Finds out what all contenders of a scenario have in common: once, before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from headrace.core.media import TierName
from headrace.sim.apart import Tell, run_tasks
from headrace.sim.job import Batches, SimulatedJob, batches_of
from headrace.sim.recording import Recording
from headrace.sim.rivals.static import Needs
from headrace.sim.scenario import Scenario
from headrace.sim.world import World

OBSERVED_S = 10800.0
"""How long jobs that nothing disturbs run before static quotas are set, if the scenario is not
shorter; their operator watches the last third, when caches have settled [s]."""

_FURTHER = 1.01
"""Factor on the steps of a job of mean step time: its own may be shorter."""

_PARTS = 20
"""How often progress is told while one job's batches are computed: a week of them takes 20 s."""

PREPARING = "preparing"
"""What is told of the time before any contender runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """What all contenders of a scenario meet."""

    jobs: tuple[SimulatedJob, ...]
    batches: tuple[Batches, ...]
    """Of each job."""

    needs: Needs
    """What each job reads from each tier on average when nothing goes wrong [B/s]."""


def prepare(scenario: Scenario, *, processes: int = 1, tell: Tell = lambda _: None) -> Ground:
    """Return what the contenders have in common; ``tell`` is told a share of the duration [s]."""
    jobs, until_s = scenario.jobs(), scenario.duration_s
    batches = _batches(jobs, until_s, processes, lambda share: tell(share * until_s))
    return Ground(jobs=jobs, batches=batches, needs=_observed_needs(scenario, jobs, batches))


def _batches(
    jobs: Sequence[SimulatedJob], until_s: float, processes: int, tell: Tell
) -> tuple[Batches, ...]:
    """Return the batches of all jobs, each process with a part of every group.

    They follow from the schedules alone, and to compute them takes as long as to run a policy.
    """
    parts = [jobs[first::processes] for first in range(min(processes, len(jobs)))]
    shares = dict[str, float]()

    def seen(part: str, share: float) -> None:
        shares[part] = share
        tell(sum(shares.values()) / len(parts))

    tasks = {
        f"schedules, part {number}": partial(_batches_until, until_s, part)
        for number, part in enumerate(parts, start=1)
    }
    made = run_tasks(tasks, processes=processes, seen=seen).values()
    known = {
        job.name: batches
        for part, found in zip(parts, made, strict=True)
        for job, batches in zip(part, found, strict=True)
    }
    return tuple(known[job.name] for job in jobs)


def _batches_until(until_s: float, jobs: Sequence[SimulatedJob], tell: Tell) -> list[Batches]:
    """Return the jobs' batches, computed as far as jobs get that never wait."""
    found = [batches_of(job) for job in jobs]
    for number, (job, batches) in enumerate(zip(jobs, found, strict=True)):
        steps = ceil(_FURTHER * until_s / job.step_time_s) + job.queue_batches
        for part in range(1, _PARTS + 1):
            batches.end(steps * part // _PARTS)
            tell((number + part / _PARTS) / len(jobs))
    return found


def _observed_needs(
    scenario: Scenario, jobs: Sequence[SimulatedJob], batches: Sequence[Batches]
) -> Needs:
    """Return what each job reads from each tier on average when nothing goes wrong [B/s].

    This is what static quotas are set from: a run without mishaps and without limits.
    """
    jobs = [replace(job, begins_at_s=0.0, initialise_s=1.0) for job in jobs]
    world = World(
        scenario.estate(),
        jobs,
        batches=batches,
        seed=scenario.seed,
        quantum_s=scenario.quantum_s,
    )
    recording = world.run(min(OBSERVED_S, scenario.duration_s))
    return {job.name: _needs_of(recording, number, job.link) for number, job in enumerate(jobs)}


def _needs_of(recording: Recording, number: int, link: TierName | None) -> dict[TierName, float]:
    rows = (recording.job == number) & (recording.begun_s >= 2 / 3 * recording.duration_s)
    busy_s = max(float(recording.step_s[rows].sum()), 1e-9)
    nbytes, hits = recording.nbytes[rows], recording.hit_rate[rows]
    needs = {"ssd": float(nbytes @ hits) / busy_s, "hdd": float(nbytes @ (1.0 - hits)) / busy_s}
    return needs | ({link: float(nbytes.sum()) / busy_s} if link else {})
