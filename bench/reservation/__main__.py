"""Static quotas against headrace on the simulated 32-job cluster; also AIMD, the policy as
published, an oracle, and headrace without single abilities.

All meet the same jobs and mishaps. Policies run two at a time on two CPUs. A simulation gives
the same figures each time, so there are no repeats: ``--seed`` of ``headrace simulate`` draws
other mishaps. ``--testbed`` instead runs a few jobs with real processes on an emulated cluster
and in the simulator, and says how far apart they are; it needs root.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import os
import sys
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


SWITCHES = {"testbed": "compare the simulator with real processes (6 minutes, root)"}


def main(given: Options) -> None:
    """Measure and report."""
    if "testbed" in given.switches:
        compare(given)
        return
    scenario = load_scenario(SCENARIO)
    names: tuple[str, ...] = (*CONTENDERS, *ABLATIONS)
    if given.quick:
        scenario, names = msgspec.structs.replace(scenario, days=QUICK_DAYS), QUICK
    outcomes = run_contest(scenario, names, processes=len(os.sched_getaffinity(0)))
    publish(report_of(scenario, outcomes), given.json)


def compare(given: Options) -> None:
    """Hold the simulator against real processes, where a machine can have them."""
    from bench.reservation import testbed, twin

    scenario = twin.load_twin(testbed.SCENARIO)
    if missing := testbed.lacking(scenario):
        sys.stderr.write(f"the testbed is left out, as this machine lacks: {missing}\n")
        return
    if given.quick:
        scenario = twin.shortened(scenario)
    model = testbed.simulated(scenario)
    publish(testbed.report_of(scenario, testbed.measured(scenario), model), given.json)


if __name__ == "__main__":
    main(options(switches=SWITCHES))
