"""Runs policies on one scenario: the same jobs and the same mishaps for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from headrace.sim.apart import Tell, run_tasks
from headrace.sim.contenders import Given, contender
from headrace.sim.ground import PREPARING, Ground, prepare
from headrace.sim.injections import SETTLED_S, draw_episodes
from headrace.sim.measures import Figures, figures_of
from headrace.sim.recording import Floats, Recording
from headrace.sim.scenario import Scenario
from headrace.sim.tracefile import traced_into
from headrace.sim.world import World

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
    scenario: Scenario,
    names: Sequence[str],
    *,
    processes: int = 1,
    seen: Seen = lambda *_: None,
    traces: Path | None = None,
) -> dict[str, Outcome]:
    """Run each contender once and return the outcomes by name.

    Args:
        scenario: The jobs, what they share and what goes wrong.
        names: Of contenders.
        processes: How many run at a time; with 1, in this process.
        seen: Told how far each is, and ``PREPARING`` before.
        traces: Folder for a trace of each run.

    Raises:
        CallerError: a name is unknown.
        StorageError: a trace cannot be written.
        RemoteError: a process that ran a contender was killed.
    """
    for name in names:
        contender(name)
    ground = prepare(scenario, processes=processes, tell=partial(seen, PREPARING))
    runs = {name: partial(run_one, scenario, name, ground, traces) for name in names}
    return run_tasks(runs, processes=processes, seen=seen)


def run_one(
    scenario: Scenario,
    name: str,
    ground: Ground,
    traces: Path | None = None,
    seen: Tell = lambda _: None,
) -> Outcome:
    """Run one contender; ``seen`` is told the simulated time [s]."""
    began_s, who = time.perf_counter(), contender(name)
    policy = who.make(Given(needs=ground.needs, limits=scenario.limits))
    traced = traced_into(traces, name, policy, ground.jobs) if traces else nullcontext(policy)
    with traced as governing:
        world = World(
            scenario.estate(),
            ground.jobs,
            batches=ground.batches,
            episodes=draw_episodes(scenario),
            policy=governing,
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


def _timeline(recording: Recording) -> Floats:
    ends_s = recording.begun_s + recording.step_s
    places = np.minimum(ends_s / recording.duration_s * TIMELINE_BINS, TIMELINE_BINS - 1)
    bins = places.astype(np.intp)
    idle_s = np.bincount(bins, weights=recording.wait_s, minlength=TIMELINE_BINS)
    busy_s = np.bincount(bins, weights=recording.step_s, minlength=TIMELINE_BINS)
    total_s = idle_s + busy_s
    share: Floats = np.divide(idle_s, total_s, out=np.zeros(TIMELINE_BINS), where=total_s > 0)
    return share
