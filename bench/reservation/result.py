"""What the benchmark reports: ratios against static quotas, and goals beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bench.measuring import Report, Spread
from headrace.sim.contenders import BASELINE, BOUND, OURS, WATCHED, contender
from headrace.sim.contest import Outcome
from headrace.sim.measures import Figures, regret
from headrace.sim.scenario import Scenario
from headrace.sim.tables import diagnosis, outcome_tables

GOALS = {
    "idle_wait": "≤ 0.15 (original 0.326)",
    "failures": "≤ 0.15 (original 0.373)",
    "cold_start": "≤ 0.10 (original 0.22)",
    "thrash": "≤ 0.10 (original 0.42)",
    "congestion": "≤ 0.25 (original 0.51)",
    "throughput": "original 1.21",
    "vs_oracle": "≥ 0.97",
}

_MODES = {"cold_start": "cold-start", "thrash": "thrash", "congestion": "congestion"}


DIAGNOSIS_GOAL = "precision and recall ≥ 0.95 of each cause"


def report_of(
    scenario: Scenario, outcomes: Mapping[str, Outcome], labelled: Scenario, watched: Outcome
) -> Report:
    """Return the report; each ratio is of one run, as a simulation repeats itself exactly.

    Args:
        scenario: What policies are compared on.
        outcomes: Theirs, by name.
        labelled: What diagnoses are held against.
        watched: The outcome there.
    """
    figures = {name: outcome.figures for name, outcome in outcomes.items()}
    first, *others = outcome_tables(outcomes)
    return Report(
        name="reservation",
        settings={
            "scenario": msgspec.to_builtins(scenario),
            "diagnosis_scenario": msgspec.to_builtins(labelled),
        },
        baseline=_described(figures[BASELINE]),
        headrace=_described(figures[OURS]),
        ratios={name: _single(value) for name, value in ratios(figures, OURS).items()},
        goals=GOALS,
        table=first,
        repeats=1,
        further={
            "policies": {name: _entry(name, figures, outcomes[name]) for name in figures},
            "diagnosis": {
                "goal": DIAGNOSIS_GOAL,
                **msgspec.to_builtins(watched.figures.diagnosis),
                "simulation_s": watched.took_s,
            },
            "regret": {name: regret(found, figures[BOUND]) for name, found in figures.items()},
        },
        further_tables=(*others, diagnosis(WATCHED, watched.figures.diagnosis)),
    )


def ratios(figures: Mapping[str, Figures], name: str) -> dict[str, float]:
    """Return one policy's figures over those of static quotas, by the names that stay."""
    base, found = figures[BASELINE], figures[name]
    return {
        "idle_wait": _over(found.idle_wait_s, base.idle_wait_s),
        "failures": _over(found.failures_per_hour, base.failures_per_hour),
        **{
            key: _over(found.modes[mode].failures_per_hour, base.modes[mode].failures_per_hour)
            for key, mode in _MODES.items()
        },
        "throughput": _over(found.samples_per_s, base.samples_per_s),
        "vs_oracle": _over(found.samples_per_s, figures[BOUND].samples_per_s),
    }


def _entry(name: str, figures: Mapping[str, Figures], outcome: Outcome) -> dict[str, Any]:
    return {
        "title": contender(name).title,
        "abilities": msgspec.to_builtins(contender(name).abilities),
        "ratio": ratios(figures, name),
        "figures": _described(figures[name]),
        "simulation_s": outcome.took_s,
    }


def _described(found: Figures) -> dict[str, Any]:
    described: dict[str, Any] = msgspec.to_builtins(found)
    return described


def _over(value: float, base: float) -> float:
    return value / base if base > 0 else float("nan")


def _single(value: float) -> Spread:
    return Spread(median=value, min=value, max=value)
