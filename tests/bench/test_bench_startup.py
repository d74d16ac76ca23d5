"""The startup benchmark's pure parts: the links' bound, and what it reports."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.checkpoints.model import Model
from bench.measuring import publish
from bench.startup.__main__ import SCENARIO
from bench.startup.bound import Bound
from bench.startup.experiments import NOT_ENDED, Found, Measured
from bench.startup.result import premise_line, report_of
from bench.startup.scale import QUICK, Scale, tried
from testbed import Scenario

BOUND = Bound(
    own_bytes=80_000_000,
    shared_bytes=20_000_000,
    hosts=8,
    datanodes=4,
    datanode_bytes_per_s=10e6,
    host_bytes_per_s=50e6,
)
NAME, OTHER = list(tried(Scale()))[:2]


def load(wall_s: float, *, copies: int = 0) -> Measured:
    """Return a load in which one DataNode sends half of all."""
    return Measured(
        wall_s=wall_s, cpu_s=3.0, sent_bytes=(50, 25, 25), ready_s=4.0 * (copies > 0), copies=copies
    )


def found(*, short: bool = False) -> Found:
    """Return two repeats."""
    return Found(
        tuning={NAME: 40.0, OTHER: NOT_ENDED},
        baseline=[load(40.0), load(50.0)],
        ours=[load(8.0, copies=8), load(12.0, copies=8)],
        ablations={} if short else {"without announcing": load(20.0)},
        ample={} if short else {"baseline": load(4.0), "headrace": load(2.0)},
    )


def test_shared_bytes_cross_once_to_each_host_by_the_narrower_links() -> None:
    assert BOUND.crossing_bytes == 240_000_000
    assert BOUND.seconds == pytest.approx(6.0)
    assert replace(BOUND, host_bytes_per_s=2e6).seconds == pytest.approx(15.0)


def test_the_report_tells_ratios_within_each_turn_and_against_the_bound() -> None:
    report = report_of(replace(Scale(), repeats=2), BOUND, found())
    assert report.ratios["load_time"].median == pytest.approx((0.2 + 0.24) / 2)
    assert report.ratios["vs_bandwidth_bound"].max == pytest.approx(2.0)
    written = msgspec.json.decode(msgspec.json.encode(report.as_json()))
    assert written["name"] == "startup"
    assert written["ratio"].keys() == {"load_time", "vs_bandwidth_bound"}
    assert written["tuning_s"] == {NAME: 40.0, OTHER: None}
    assert written["headrace"]["ready_s"]["median"] == 4.0
    assert "ready_s" not in written["baseline"]
    assert written["baseline"]["busiest_datanode_share"]["median"] == 0.5


def test_the_premise_and_what_did_not_end_in_time_are_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for short in (False, True):
        publish(report_of(Scale(), BOUND, found(short=short)), None)
        said = " ".join(capsys.readouterr().out.split())
        assert "did not end in time" in said
        assert ("the premise turned off" in said) is not short
    line = premise_line(Scale(), BOUND)
    assert "32 ranks on 8 hosts at 50.0 MB/s, 4 DataNodes at 10.0 MB/s each" in line


def test_the_baseline_is_the_quickest_of_what_was_tried() -> None:
    assert found().best == NAME
    assert math.isinf(found().tuning[OTHER])
    assert tried(QUICK).keys() <= tried(Scale()).keys()


def test_the_bed_has_the_hosts_that_the_docs_promise() -> None:
    hosts = {group.role: group.count for group in Scenario.load(SCENARIO).hosts}
    assert hosts == {"namenode": 1, "storage": 8, "trainer": 8}
    assert hosts["trainer"] * Scale().ranks_per_host == 32


def test_a_state_counts_its_tensors() -> None:
    model = Model(layers=2, width=8, rows=4, vocabulary=16)
    assert (model.tensors, model.embedding_bytes) == (23, 256)
