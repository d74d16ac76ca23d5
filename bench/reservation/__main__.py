"""Static quotas against headrace on the simulated 32-job cluster; also AIMD, the policy as
published, an oracle, and headrace without single abilities.

All meet the same jobs and mishaps. Policies run two at a time on two CPUs. A simulation gives
the same figures each time, so there are no repeats: ``--seed`` of ``headrace simulate`` draws
other mishaps. What the arbiter diagnoses is held against what was injected in a scenario of its
own, where quotas are static and nothing is mended. ``--ablations`` also runs headrace without
single abilities. ``--testbed`` instead runs a few jobs with real processes on an emulated cluster
and in the simulator, and says how far apart they are; ``--diagnosis`` holds against labels what
real processes say of waits. Both need root, and ``--repeats``, for their runs differ.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.measuring import Options, options, publish
from bench.reservation.result import report_of
from headrace.sim.contenders import ABLATIONS, BASELINE, BOUND, CONTENDERS, OURS, WATCHED
from headrace.sim.contest import run_contest
from headrace.sim.scenario import load_scenario

if TYPE_CHECKING:
    from bench.reservation.twin import Twin

SCENARIO = Path(__file__).parents[2] / "examples" / "scenarios" / "reservation-32.toml"
DIAGNOSIS = SCENARIO.with_name("diagnosis-32.toml")

QUICK_DAYS = 0.1
QUICK = (BASELINE, "published", OURS, BOUND)


SWITCHES = {
    "ablations": "also run headrace without single abilities",
    "testbed": "compare the simulator with real processes (6 minutes a repeat, root)",
    "diagnosis": "count how many causes of waits real processes name (7 minutes a repeat, root)",
}


def main(given: Options) -> None:
    """Measure and report."""
    if "testbed" in given.switches:
        compare(given)
        return
    if "diagnosis" in given.switches:
        diagnose(given)
        return
    scenario, labelled = load_scenario(SCENARIO), load_scenario(DIAGNOSIS)
    names = (*CONTENDERS, *(ABLATIONS if "ablations" in given.switches else ()))
    if given.quick:
        scenario, labelled = (
            msgspec.structs.replace(one, days=QUICK_DAYS) for one in (scenario, labelled)
        )
        names = QUICK
    outcomes = run_contest(scenario, names, processes=len(os.sched_getaffinity(0)))
    diagnoses = run_contest(labelled, (WATCHED,))[WATCHED]
    publish(report_of(scenario, outcomes, labelled, diagnoses), given.json)


def compare(given: Options) -> None:
    """Hold the simulator against real processes, where a machine can have them."""
    from bench.reservation import testbed, twin

    scenario = twin.load_twin(testbed.SCENARIO)
    if is_left_out(scenario):
        return
    if given.quick:
        scenario = twin.shortened(scenario)
    model = testbed.simulated(scenario)
    runs = [testbed.measured(scenario) for _ in range(given.repeats)]
    publish(testbed.report_of(scenario, runs, model), given.json)


def diagnose(given: Options) -> None:
    """Hold what real processes say of waits against what was injected."""
    from bench.reservation import diagnosis, twin

    scenarios = [twin.load_twin(path) for path in diagnosis.SCENARIOS]
    if is_left_out(scenarios[0]):
        return
    if given.quick:
        scenarios = [twin.shortened(scenario) for scenario in scenarios]
    runs = [[diagnosis.measured(one) for one in scenarios] for _ in range(given.repeats)]
    publish(diagnosis.report_of(scenarios, runs), given.json)


def is_left_out(scenario: Twin) -> bool:
    """Say so if this machine cannot emulate a cluster."""
    from bench.reservation import testbed

    if missing := testbed.lacking(scenario):
        sys.stderr.write(f"the testbed is left out, as this machine lacks: {missing}\n")
    return bool(missing)


if __name__ == "__main__":
    main(options(switches=SWITCHES, repeats="runs with real processes"))
