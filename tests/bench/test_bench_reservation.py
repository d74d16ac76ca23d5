"""The reservation benchmark reports under its fixed names."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.measuring import publish
from bench.reservation.__main__ import QUICK, SCENARIO
from bench.reservation.result import GOALS, report_of
from headrace.sim.contenders import WATCHED
from headrace.sim.contest import run_contest
from headrace.sim.scenario import load_scenario

RATIOS = {"idle_wait", "failures", "cold_start", "thrash", "congestion", "throughput", "vs_oracle"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_report_has_the_ratios_that_stay_and_every_policys_own(tmp_path: Path) -> None:
    scenario = msgspec.structs.replace(load_scenario(SCENARIO.with_name("quick.toml")), days=0.02)
    watched = run_contest(scenario, (WATCHED,))[WATCHED]
    publish(report_of(scenario, run_contest(scenario, QUICK), scenario, watched), tmp_path)
    written = msgspec.json.decode((tmp_path / "reservation.json").read_bytes())
    assert written["ratio"].keys() == RATIOS == GOALS.keys()
    assert written["policies"].keys() == set(QUICK)
    assert written["policies"]["static"]["ratio"]["throughput"] == 1.0
    assert written["policies"]["oracle"]["ratio"]["vs_oracle"] == 1.0
    assert written["diagnosis"]["scores"].keys() == written["diagnosis"]["counts"].keys() - {"none"}
    assert written["settings"]["scenario"]["groups"].keys() == {"vision", "remote", "text"}
