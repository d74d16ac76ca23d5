"""The same jobs with real processes and simulated, each under static quotas and under headrace.

What is published is how far the simulator's ratios are from those of the emulated cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from bench.measuring import Report, Spread
from bench.reservation.bed import ReservationBed
from bench.reservation.twin import Twin
from headrace.policy.reservation.arbiter import Arbiter
from headrace.report.blocks import Table
from headrace.report.units import ratio
from headrace.sim.contenders import BASELINE, OURS
from headrace.sim.episode import MODES
from headrace.sim.estate import Abilities
from headrace.sim.measures import Figures, figures_of
from headrace.sim.policies import Policy
from headrace.sim.rivals.static import StaticQuotas
from headrace.sim.world import World
from testbed import probe

SCENARIO = Path(__file__).parent / "testbed.toml"

GOAL = "simulated within 10 %"

QUANTUM_S = 0.1
"""A quarter of the shortest step [s]."""

_ABLE = Abilities(early_prefetch=True)
"""A real Loader begins to fetch when it is made; no agent of the scenario has a cache."""

Both: TypeAlias = Mapping[str, Figures]
"""``static`` and ``predictive`` → figures."""


def lacking(twin: Twin) -> str:
    """Return what this machine lacks for the emulated cluster; empty if nothing."""
    return "; ".join(lack.what for lack in probe.lacks(twin.bed()))


def measured(twin: Twin) -> Both:
    """Run both policies with real processes, each on a cluster of its own."""
    figures = {}
    for name in (BASELINE, OURS):
        with ReservationBed(twin) as bed:
            figures[name] = figures_of(twin.counted(bed.run(static=name == BASELINE)))
    return figures


def simulated(twin: Twin) -> Both:
    """Run both policies in the simulator."""
    policies: dict[str, Policy] = {BASELINE: StaticQuotas(twin.needs()), OURS: Arbiter()}
    figures = {}
    for name, policy in policies.items():
        world = World(
            twin.estate(),
            list(twin.simulated_jobs()),
            episodes=list(twin.episodes()),
            policy=policy,
            abilities=_ABLE,
            quantum_s=QUANTUM_S,
        )
        figures[name] = figures_of(twin.counted(world.run(twin.duration_s)))
    return figures


def report_of(twin: Twin, real: Both, model: Both) -> Report:
    """Return the report: ratios of the cluster, and how far the simulated ones are from them."""
    found, foretold = ratios(real), ratios(model)
    known = [name for name, value in found.items() if value > 0 and name in foretold]
    errors = {name: foretold[name] / found[name] - 1.0 for name in known}
    return Report(
        name="reservation-testbed",
        settings={"scenario": msgspec.to_builtins(twin)},
        baseline=msgspec.to_builtins(real[BASELINE]),
        headrace=msgspec.to_builtins(real[OURS]),
        ratios={name: Spread(median=v, min=v, max=v) for name, v in found.items()},
        goals=dict.fromkeys(found, GOAL),
        table=_figures_table(twin, real, model),
        repeats=1,
        further={
            "simulated": {name: msgspec.to_builtins(one) for name, one in model.items()},
            "simulated_ratio": foretold,
            "ratio_error": errors,
        },
        further_tables=(_error_table(found, foretold, errors), *map(_diagnosis, real.items())),
    )


def ratios(both: Both) -> dict[str, float]:
    """Return headrace over static quotas, where static quotas have anything to divide by."""
    base, ours = both[BASELINE], both[OURS]
    pairs = {
        "idle_wait": (ours.idle_wait_s, base.idle_wait_s),
        "failures": (ours.failures_per_hour, base.failures_per_hour),
        "throughput": (ours.samples_per_s, base.samples_per_s),
        **{
            name: (ours.modes[mode].idle_wait_s, base.modes[mode].idle_wait_s)
            for name, mode in (("cold_start", "cold-start"), ("congestion", "congestion"))
        },
    }
    return {name: above / below for name, (above, below) in pairs.items() if below > 0}


def _figures_table(twin: Twin, real: Both, model: Both) -> Table:
    rows = [
        (where, name, *_cells(both[name]))
        for name in (BASELINE, OURS)
        for where, both in (("testbed", real), ("simulator", model))
    ]
    return Table(
        title=twin.title,
        columns=(
            "where",
            "policy",
            "idle wait",
            "cold start",
            "congestion",
            "failures/h",
            "samples/s",
        ),
        rows=tuple(rows),
        note="waits per iteration; a failure is a batch that was not there when asked for",
        emphasis=frozenset({2}),
    )


def _cells(figures: Figures) -> tuple[str, ...]:
    waits = (figures, figures.modes["cold-start"], figures.modes["congestion"])
    return (
        *(f"{1e3 * one.idle_wait_s:.1f} ms" for one in waits),
        f"{figures.failures_per_hour:.0f}",
        f"{figures.samples_per_s:.1f}",
    )


def _error_table(
    found: Mapping[str, float], foretold: Mapping[str, float], errors: Mapping[str, float]
) -> Table:
    rows = [
        (
            name,
            ratio(value),
            ratio(foretold[name]) if name in foretold else "–",
            _percent(errors, name),
        )
        for name, value in found.items()
    ]
    return Table(
        title="headrace / static quotas",
        columns=("ratio", "testbed", "simulator", "error"),
        rows=tuple(rows),
        emphasis=frozenset({3}),
    )


def _percent(errors: Mapping[str, float], name: str) -> str:
    return f"{errors[name]:+.0%}" if name in errors else "–"


def _diagnosis(named: tuple[str, Figures]) -> Table:
    name, figures = named
    found = figures.diagnosis
    rows = [
        (truth, *(str(found.counts[truth][said]) for said in MODES), *_score(figures, truth))
        for truth in MODES
    ]
    return Table(
        title=f"Diagnosis on the testbed: {name}",
        columns=("injected", *MODES, "precision", "recall"),
        rows=tuple(rows),
        note="how often each cause was named, by what was injected",
    )


def _score(figures: Figures, truth: str) -> tuple[str, str]:
    score: Any = figures.diagnosis.scores.get(truth)
    return (f"{score.precision:.2f}", f"{score.recall:.2f}") if score else ("", "")
