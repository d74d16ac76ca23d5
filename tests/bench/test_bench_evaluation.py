"""The evaluation benchmark's pure parts: the line's busiest second, and what it reports."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.evaluation.__main__ import SCENARIO
from bench.evaluation.copying import Copied
from bench.evaluation.experiments import Found, Loaded
from bench.evaluation.linemeter import busiest_second
from bench.evaluation.result import premise_line, report_of
from bench.evaluation.scale import QUICK, Scale, tried
from bench.measuring import publish
from testbed import Scenario

FAST, SLOW = tried(Scale())
SCALE = replace(Scale(), repeats=2)


def loaded(wall_s: float) -> Loaded:
    """Return a load that took so long."""
    return Loaded(wall_s=wall_s, cpu_s=1.0, line_bytes=1000, shared_bytes=3000)


def copied(readable_s: float, *, busiest: float = 5e6) -> Copied:
    """Return a copy that took so long."""
    return Copied(readable_s=readable_s, line_bytes=1000, busiest_bytes_per_s=busiest)


def found(*, urgent: bool = True) -> Found:
    """Return two repeats."""
    return Found(
        tuning={FAST: 20.0, SLOW: float("inf")},
        baseline=[loaded(20.0), loaded(40.0)],
        without_copy=[loaded(5.0), loaded(8.0)],
        with_copy=[loaded(1.0), loaded(1.0)],
        tensors={"fsspec": [loaded(4.0)] * 2, "headrace": [loaded(3.0), loaded(5.0)]},
        file_copies={4: [copied(10.0), copied(12.0)], 8: [copied(11.0), copied(9.0)]},
        copies=[copied(11.0), copied(9.0)],
        alone=[copied(10.0)] if urgent else [],
        beside=[copied(11.0, busiest=5.7e6)] if urgent else [],
    )


def test_the_busiest_second_is_found_wherever_it_begins() -> None:
    steady = [(at / 50, at * 1000) for at in range(200)]
    assert busiest_second(steady) == pytest.approx(50_000)
    burst = [(at_s, n + (40_000 if at_s >= 1.3 else 0)) for at_s, n in steady]
    assert busiest_second(burst) == pytest.approx(90_000)
    assert busiest_second(steady[:20]) == 0.0


@given(st.lists(st.tuples(st.floats(0.01, 0.3), st.integers(0, 10_000)), min_size=2, max_size=80))
def test_no_whole_second_is_busier_than_what_is_told(steps: list[tuple[float, int]]) -> None:
    at_s, crossed, samples = 0.0, 0, []
    for pause_s, nbytes in steps:
        at_s, crossed = at_s + pause_s, crossed + nbytes
        samples.append((at_s, crossed))
    told = busiest_second(samples)
    for first, (begin_s, before) in enumerate(samples):
        ends = [one for one in samples[first:] if one[0] >= begin_s + 1.0]
        if ends:
            end_s, after = ends[0]
            assert (after - before) / (end_s - begin_s) <= told + 1e-6


def test_the_report_tells_ratios_within_each_turn() -> None:
    report = report_of(SCALE, Scenario.load(SCENARIO), found())
    assert report.ratios["with_copy"].median == pytest.approx(0.0375)
    assert report.ratios["without_copy"].max == pytest.approx(0.25)
    written = msgspec.json.decode(msgspec.json.encode(report.as_json()))
    assert written["name"] == "evaluation"
    assert written["ratio"].keys() == {"with_copy", "without_copy"}
    assert written["safetensors"]["load_ratio"]["median"] == pytest.approx(1.0)
    assert written["replication"]["file_copy_workers"] == 8
    assert written["replication"]["readable_ratio"]["median"] == pytest.approx(1.0)
    assert written["urgent"]["beside_over_alone"]["median"] == pytest.approx(1.1)
    assert written["urgent"]["busiest_second_over_budget"] == pytest.approx(0.95)


def test_the_premise_and_what_was_not_measured_are_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for urgent in (True, False):
        publish(report_of(SCALE, Scenario.load(SCENARIO), found(urgent=urgent)), None)
        said = " ".join(capsys.readouterr().out.split())
        assert ("an urgent checkpoint" in said) is urgent
        assert "did not end in time" in said
    line = premise_line(Scale(), Scenario.load(SCENARIO))
    assert "2 hosts of 4 ranks, each of which holds the whole model of 705 tensors" in line
    assert "10.0 MB/s and a round trip of 30 ms" in line


def test_a_quick_run_tries_less_of_the_same() -> None:
    assert found().best == FAST
    assert tried(QUICK).keys() <= tried(Scale()).keys()
