"""Static quotas against headrace on the simulated 32-job cluster; also AIMD, the policy as
published, an oracle, and headrace without single abilities.

All meet the same jobs and mishaps. Policies run two at a time on two CPUs. A simulation gives
the same figures each time, so there are no repeats: ``--seed`` of ``headrace simulate`` draws
other mishaps.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bench.measuring import Options, options, publish
from bench.reservation.result import report_of
from headrace.sim.contenders import ABLATIONS, BASELINE, BOUND, CONTENDERS, OURS
from headrace.sim.contest import run_contest
from headrace.sim.scenario import load_scenario

SCENARIO = Path(__file__).parents[2] / "examples" / "scenarios" / "reservation-32.toml"

QUICK_DAYS = 0.1
QUICK = (BASELINE, "published", OURS, BOUND)


def main(given: Options) -> None:
    """Measure and report."""
    scenario = load_scenario(SCENARIO)
    names: tuple[str, ...] = (*CONTENDERS, *ABLATIONS)
    if given.quick:
        scenario, names = msgspec.structs.replace(scenario, days=QUICK_DAYS), QUICK
    outcomes = run_contest(scenario, names, processes=len(os.sched_getaffinity(0)))
    publish(report_of(scenario, outcomes), given.json)


if __name__ == "__main__":
    main(options())
