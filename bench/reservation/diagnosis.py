"""How often real processes name the cause of a job's waits right: labelled runs, static quotas.

Nobody mends what is injected, so it lasts and hurts. Thrash is not among the causes: no sample is
cached, and what an agent caches it keeps for as long as the schedule needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.measuring import Report
from bench.reservation.bed import ReservationBed
from bench.reservation.result import DIAGNOSIS_GOAL
from bench.reservation.twin import Twin
from headrace.sim.confusion import Confusion, together
from headrace.sim.contenders import WATCHED
from headrace.sim.measures import figures_of
from headrace.sim.tables import diagnosis

SCENARIOS = tuple(
    Path(__file__).with_name(f"diagnosis-{about}.toml") for about in ("storage", "cores")
)

AFTERMATH_S = 5.0
"""For so long after an episode its cause may still be named: about ten steps, as in simulations
[s]."""


def measured(twin: Twin) -> Confusion:
    """Play one scenario with real processes and return what was said of what was wrong."""
    with ReservationBed(twin) as bed:
        recording = twin.counted(bed.run(static=True))
    return figures_of(recording, aftermath_s=AFTERMATH_S).diagnosis


def report_of(twins: Sequence[Twin], runs: Sequence[Sequence[Confusion]]) -> Report:
    """Return the report of all repeats.

    Args:
        twins: The scenarios.
        runs: For each repeat, what each scenario came to.
    """
    whole = [together(run) for run in runs]
    return Report(
        name="reservation-diagnosis",
        settings={"scenarios": [msgspec.to_builtins(twin) for twin in twins]},
        baseline={},
        headrace={},
        ratios={},
        goals={},
        table=diagnosis(WATCHED, together(whole)),
        repeats=len(runs),
        further={
            "goal": DIAGNOSIS_GOAL,
            "diagnosis": msgspec.to_builtins(together(whole)),
            "diagnosis_of_each": msgspec.to_builtins(whole),
        },
    )
