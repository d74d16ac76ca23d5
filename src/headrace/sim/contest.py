"""Runs policies on one scenario: the same jobs and the same mishaps for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from headrace.core.media import TierName
from headrace.sim.apart import Tell, run_apart
from headrace.sim.contenders import Given, contender
from headrace.sim.injections import SETTLED_S, draw_episodes
from headrace.sim.measures import Figures, figures_of
from headrace.sim.recording import Floats, Recording
from headrace.sim.rivals.static import Needs
from headrace.sim.scenario import Scenario
from headrace.sim.world import World

OBSERVED_S = 10800.0
"""How long jobs that nothing disturbs run before static quotas are set, if the scenario is not
shorter; their operator watches the last third, when caches have settled [s]."""

TIMELINE_BINS = 168
"""Points of an outcome's timeline: hours, where a week is simulated."""

Seen: TypeAlias = Callable[[str, float], None]
"""Told a contender's name and its simulated time [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One contender's run."""

    name: str
    figures: Figures
    idle_share: Floats
    """Idle wait over time, by stretch of the run ``[TIMELINE_BINS]``."""

    took_s: float
    """Wall time of the simulation [s]."""


def run_contest(
    scenario: Scenario, names: Sequence[str], *, processes: int = 1, seen: Seen = lambda *_: None
) -> dict[str, Outcome]:
    """Run each contender once and return the outcomes by name.

    Raises:
        CallerError: a name is unknown.
        RemoteError: a process that ran a contender was killed.
    """
    for name in names:
        contender(name)
    needs = observed_needs(scenario)
    runs = {name: partial(run_one, scenario, name, needs) for name in names}
    if processes == 1 or len(names) == 1:
        return {name: run(partial(seen, name)) for name, run in runs.items()}
    return run_apart(runs, processes=processes, seen=seen)


def run_one(scenario: Scenario, name: str, needs: Needs, seen: Tell = lambda _: None) -> Outcome:
    """Run one contender; ``seen`` is told the simulated time [s]."""
    began_s, who = time.perf_counter(), contender(name)
    world = World(
        scenario.estate(),
        scenario.jobs(),
        episodes=draw_episodes(scenario),
        policy=who.make(Given(needs=needs, limits=scenario.limits)),
        abilities=who.abilities,
        seed=scenario.seed,
        quantum_s=scenario.quantum_s,
    )
    recording = world.run(scenario.duration_s, progress=seen)
    return Outcome(
        name=name,
        figures=figures_of(recording, settled_s=SETTLED_S),
        idle_share=_timeline(recording),
        took_s=time.perf_counter() - began_s,
    )


def observed_needs(scenario: Scenario) -> Needs:
    """Return what each job reads from each tier on average when nothing goes wrong [B/s].

    This is what static quotas are set from: a run without mishaps and without limits.
    """
    jobs = [replace(job, begins_at_s=0.0, initialise_s=1.0) for job in scenario.jobs()]
    world = World(scenario.estate(), jobs, seed=scenario.seed, quantum_s=scenario.quantum_s)
    recording = world.run(min(OBSERVED_S, scenario.duration_s))
    return {job.name: _needs_of(recording, number, job.link) for number, job in enumerate(jobs)}


def _needs_of(recording: Recording, number: int, link: TierName | None) -> dict[TierName, float]:
    rows = (recording.job == number) & (recording.begun_s >= 2 / 3 * recording.duration_s)
    busy_s = max(float(recording.step_s[rows].sum()), 1e-9)
    nbytes, hits = recording.nbytes[rows], recording.hit_rate[rows]
    needs = {"ssd": float(nbytes @ hits) / busy_s, "hdd": float(nbytes @ (1.0 - hits)) / busy_s}
    return needs | ({link: float(nbytes.sum()) / busy_s} if link else {})


def _timeline(recording: Recording) -> Floats:
    ends_s = recording.begun_s + recording.step_s
    places = np.minimum(ends_s / recording.duration_s * TIMELINE_BINS, TIMELINE_BINS - 1)
    bins = places.astype(np.intp)
    idle_s = np.bincount(bins, weights=recording.wait_s, minlength=TIMELINE_BINS)
    busy_s = np.bincount(bins, weights=recording.step_s, minlength=TIMELINE_BINS)
    total_s = idle_s + busy_s
    share: Floats = np.divide(idle_s, total_s, out=np.zeros(TIMELINE_BINS), where=total_s > 0)
    return share
