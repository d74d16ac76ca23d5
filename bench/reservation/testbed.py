"""The same jobs with real processes and simulated, each under static quotas and under headrace.

What is published is how far the simulator's ratios are from those of the emulated cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.measuring import Report, Spread, spread
from bench.reservation.bed import ReservationBed
from bench.reservation.twin import Twin
from headrace.policy.reservation.arbiter import Arbiter
from headrace.report.blocks import Table
from headrace.report.units import ratio
from headrace.sim.contenders import BASELINE, OURS
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

_MODES = {"cold_start_wait_s": "cold-start", "congestion_wait_s": "congestion"}

_RATIOS = {
    "idle_wait": "idle_wait_s",
    "failures": "failures_per_hour",
    "throughput": "samples_per_s",
    "cold_start": "cold_start_wait_s",
    "congestion": "congestion_wait_s",
}
"""Names that stay → what they are the ratios of."""

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


def report_of(twin: Twin, runs: Sequence[Both], model: Both) -> Report:
    """Return the report: ratios of the cluster, and how far the simulated ones are from them.

    Args:
        twin: The scenario.
        runs: What the cluster came to, for each repeat.
        model: What the simulator came to; it comes to the same each time.
    """
    found, foretold = spreads([ratios(run) for run in runs]), ratios(model)
    known = [name for name, value in found.items() if value.median > 0 and name in foretold]
    errors = {name: foretold[name] / found[name].median - 1.0 for name in known}
    measured = {name: spreads([quantities(run[name]) for run in runs]) for name in (BASELINE, OURS)}
    return Report(
        name="reservation-testbed",
        settings={"scenario": msgspec.to_builtins(twin)},
        baseline=measured[BASELINE],
        headrace=measured[OURS],
        ratios=found,
        goals=dict.fromkeys(found, GOAL),
        table=_figures_table(twin, measured, model),
        repeats=len(runs),
        further={
            "measured": [msgspec.to_builtins(dict(run)) for run in runs],
            "simulated": {name: msgspec.to_builtins(one) for name, one in model.items()},
            "simulated_ratio": foretold,
            "ratio_error": errors,
        },
        further_tables=(_error_table(found, foretold, errors),),
    )


def spreads(each: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Return median and range of each figure that all repeats have."""
    names = [name for name in each[0] if all(name in one for one in each)]
    return {name: spread([one[name] for one in each]) for name in names}


def quantities(figures: Figures) -> dict[str, float]:
    """Return what is compared of one run."""
    return {
        "idle_wait_s": figures.idle_wait_s,
        **{name: figures.modes[mode].idle_wait_s for name, mode in _MODES.items()},
        "failures_per_hour": figures.failures_per_hour,
        "samples_per_s": figures.samples_per_s,
    }


def ratios(both: Both) -> dict[str, float]:
    """Return headrace over static quotas, where static quotas have anything to divide by."""
    base, ours = quantities(both[BASELINE]), quantities(both[OURS])
    return {
        name: ours[quantity] / base[quantity]
        for name, quantity in _RATIOS.items()
        if base[quantity] > 0
    }


def _figures_table(twin: Twin, measured: Mapping[str, Mapping[str, Spread]], model: Both) -> Table:
    rows = []
    for name in (BASELINE, OURS):
        rows.append(("testbed", name, *_cells(measured[name])))
        simulated = {key: spread([value]) for key, value in quantities(model[name]).items()}
        rows.append(("simulator", name, *_cells(simulated)))
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
        note="waits per iteration; a failure is a batch that was not there when asked for; of "
        "several repeats the median and the range",
        emphasis=frozenset({2}),
    )


def _cells(found: Mapping[str, Spread]) -> tuple[str, ...]:
    return (
        *(_cell(found[name], "{:.1f} ms", 1e3) for name in ("idle_wait_s", *_MODES)),
        _cell(found["failures_per_hour"], "{:.0f}"),
        _cell(found["samples_per_s"], "{:.1f}"),
    )


def _cell(value: Spread, form: str, factor: float = 1.0) -> str:
    """Return the median, with the range where there is one."""
    low, middle, high = (form.format(factor * one) for one in (value.min, value.median, value.max))
    return middle if low == high else f"{middle} ({low} to {high})"


def _error_table(
    found: Mapping[str, Spread], foretold: Mapping[str, float], errors: Mapping[str, float]
) -> Table:
    rows = [
        (
            name,
            ratio(value.median),
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
