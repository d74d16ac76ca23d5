"""What the benchmark reports: how often causes are named right, and a goal beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.diagnosis.modelled import LEAST_LOST, MOST_LOST
from bench.diagnosis.scoring import Verdict, confusion, scores, table
from bench.measuring import Report
from headrace.analysis.thresholds import Thresholds

GOAL = "precision and recall ≥ 0.95 of each cause"


def report_of(
    modelled: Sequence[Verdict], simulated: Sequence[Verdict], real: Sequence[Verdict] = ()
) -> Report:
    """Return the report of jobs on modelled hardware, on the simulated estate, and real ones."""
    others = {"simulated": simulated, "real": real} if real else {"simulated": simulated}
    return Report(
        name="diagnosis",
        settings={
            "modelled_jobs": len(modelled),
            "simulated_jobs": len(simulated),
            "least_lost_share": LEAST_LOST,
            "most_lost_share_of_none": MOST_LOST,
            "thresholds": msgspec.to_builtins(Thresholds()),
        },
        baseline={},
        headrace={},
        ratios={},
        goals={},
        table=table("Modelled jobs", modelled),
        repeats=1,
        further={
            "goal": GOAL,
            "modelled": _scored(modelled),
            **{name: _scored(verdicts) for name, verdicts in others.items()},
        },
        further_tables=tuple(
            table(f"{name.capitalize()} jobs", verdicts) for name, verdicts in others.items()
        ),
    )


def _scored(verdicts: Sequence[Verdict]) -> Mapping[str, Any]:
    return {
        "scores": msgspec.to_builtins(scores(verdicts)),
        "confusion": confusion(verdicts),
        "wrong": [
            {"seed": seed, "true": list(true), "named": list(named)}
            for seed, true, named in verdicts
            if set(true) != set(named)
        ],
    }
