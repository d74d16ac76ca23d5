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


def report_of(modelled: Sequence[Verdict]) -> Report:
    """Return the report."""
    return Report(
        name="diagnosis",
        settings={
            "jobs": len(modelled),
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
        further={"goal": GOAL, "modelled": _scored(modelled)},
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
