"""Verdicts on jobs of the simulated estate: one kind of trouble at a time.

Quotas are static, so nobody mends what goes wrong. A job's trace holds what its host would
report; what was wrong with each of its iterations is known. The simulator is older than the
diagnosis and was made for another purpose: a trouble has one label there, also where it does
several things (a scan takes room in a cache and time of disks), so what lost most counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.diagnosis.modelled import LEAST_LOST, MOST_LOST, named
from bench.diagnosis.scoring import Verdict
from headrace.analysis.causes import Cause
from headrace.sim.apart import Tell, run_tasks
from headrace.sim.contenders import BASELINE, Given, contender
from headrace.sim.episode import MODES
from headrace.sim.ground import Ground, prepare
from headrace.sim.injections import draw_episodes
from headrace.sim.recording import Recording
from headrace.sim.scenario import Scenario, load_scenario
from headrace.sim.tracing import Traced
from headrace.sim.world import World
from headrace.trace.events import Event, batch_of

SCENARIO = Path(__file__).parents[2] / "examples" / "scenarios" / "diagnosis-32.toml"
SEEDS = (301, 302, 303)
"""Of the scored estates; the rules were made on others."""

HOURS = 4.0
QUICK_HOURS = 1.0

MORE_VIDEO_JOBS = 6
"""In place of jobs that read images, with their part of the cache, and with cores of their own:
only these can be bound by transforms."""

_Truths: TypeAlias = tuple[Cause, ...]
_replace = msgspec.structs.replace


def verdicts(*, seeds: Sequence[int] = SEEDS, hours: float = HOURS) -> tuple[Verdict, ...]:
    """Return a verdict for each job of each kind of trouble for which the truth is plain."""
    return tuple(verdict for seed in seeds for verdict in _of_estate(seed, hours))


def _of_estate(seed: int, hours: float) -> tuple[Verdict, ...]:
    scenario = _replace(_scenario(), days=hours / 24, seed=seed)
    processes = len(os.sched_getaffinity(0))
    ground = prepare(scenario, processes=processes)
    troubled = dict(_troubled(scenario))
    runs = {name: partial(_verdicts, one, ground) for name, one in troubled.items()}
    found = run_tasks(runs, processes=processes, seen=lambda *_: None)
    return tuple(verdict for name in troubled for verdict in found[name])


def _scenario() -> Scenario:
    found = load_scenario(SCENARIO)
    video, vision = found.groups["video"], found.groups["vision"]
    jobs = video.count + MORE_VIDEO_JOBS
    samples = round(vision.dataset_samples * vision.sample_bytes / video.sample_bytes)
    changed = {
        "video": _replace(video, count=jobs, dataset_samples=samples),
        "vision": _replace(vision, count=vision.count - MORE_VIDEO_JOBS),
    }
    cores = found.hardware.cpu_cores * jobs / video.count
    return _replace(
        found,
        groups=found.groups | changed,
        hardware=_replace(found.hardware, cpu_cores=cores),
    )


def _troubled(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield the scenario with each kind of trouble alone; cross traffic in long, strong pulses."""
    given = scenario.troubles
    calm = _replace(
        given,
        scans=_replace(given.scans, per_day=0),
        congestion=_replace(given.congestion, per_day=0),
        cpu=_replace(given.cpu, per_day=0),
    )
    restless = {name: _replace(one, restarts_every_h=2) for name, one in scenario.groups.items()}
    steady = {name: _replace(one, restarts_every_h=0) for name, one in scenario.groups.items()}
    traffic = _replace(given.congestion, per_day=20, pulse_s=(150, 400), share=(0.85, 0.95))
    yield "restarts", _replace(scenario, groups=restless, troubles=calm)
    for name, troubles in (
        ("nothing", calm),
        ("scans", _replace(calm, scans=_replace(given.scans, per_day=20))),
        ("traffic", _replace(calm, congestion=traffic)),
        ("cores", _replace(calm, cpu=_replace(given.cpu, per_day=30))),
    ):
        yield name, _replace(scenario, groups=steady, troubles=troubles)


def _verdicts(scenario: Scenario, ground: Ground, seen: Tell) -> tuple[Verdict, ...]:
    """Run one scenario and return what is said of its jobs."""
    traces: dict[str, list[Event]] = {job.name: [] for job in ground.jobs}

    def record(event: Event) -> None:
        assert event.job is not None
        traces[event.job].append(event)

    who = contender(BASELINE)
    policy = who.make(Given(needs=ground.needs, limits=scenario.limits))
    world = World(
        scenario.estate(),
        ground.jobs,
        batches=ground.batches,
        episodes=draw_episodes(scenario),
        policy=Traced(policy, ground.jobs, record),
        abilities=who.abilities,
        seed=scenario.seed,
        quantum_s=scenario.quantum_s,
    )
    truths = _truths(world.run(scenario.duration_s, progress=seen))
    return tuple(
        Verdict(scenario.seed, true, named(batch_of(traces[job]))[:1])
        for job, true in truths.items()
    )


def _truths(recording: Recording) -> Mapping[str, _Truths]:
    """Return what was wrong with each job for which that is plain."""
    found: dict[str, _Truths] = {}
    for number, job in enumerate(recording.jobs):
        rows = recording.job == number
        wait_s, truths = recording.wait_s[rows], recording.truths[rows]
        job_s = float((wait_s + recording.step_s[rows]).sum())
        lost = {
            Cause(mode): float(wait_s[truths & 1 << place != 0].sum()) / job_s
            for place, mode in enumerate(MODES)
        }
        true = tuple(cause for cause, share in lost.items() if share >= LEAST_LOST)
        others = float(wait_s.sum()) / job_s - sum(lost[cause] for cause in true)
        if others < MOST_LOST:
            found[job] = true or (Cause.NONE,)
    return found
