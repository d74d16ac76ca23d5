"""The scored diagnosis: its model is physical, its labels are plain, its scores are right."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.diagnosis.cases import COMBINATIONS, healthy, labelled
from bench.diagnosis.model import run
from bench.diagnosis.modelled import verdict
from bench.diagnosis.result import report_of
from bench.diagnosis.scoring import Verdict, confusion, scores
from bench.diagnosis.setting import Setting
from bench.measuring import publish
from headrace.analysis.causes import Cause
from headrace.trace.events import Kind, arrow_schema

DEVELOPMENT_SEED = 5_000_000
"""None of the scored ones."""


def rate_of_requests(setting: Setting) -> float:
    """Bytes a second that requests of the trace brought."""
    events = run(setting).events()
    requests = events.filter(pc.equal(events["kind"], Kind.REQUEST.value))
    begin, end = requests["begin_ns"], pc.add(requests["begin_ns"], requests["duration_ns"])
    span_s = (pc.max(end).as_py() - pc.min(begin).as_py()) * 1e-9
    return pc.sum(requests["bytes"]).as_py() / span_s


BOUND = Setting(
    steps=25, step_s=0.01, workers=8, queue=16, transform_s=1e-4, seek_s=0.0, round_trip_s=1e-4
)
"""A loop that takes all that it can get."""


def test_disks_and_a_link_give_what_they_have_and_no_more() -> None:
    disks = replace(BOUND, disks=2, disk_bytes_per_s=10e6)
    assert 0.9 * 20e6 < rate_of_requests(disks) <= 20e6
    link = replace(BOUND, link_bytes_per_s=15e6)
    assert 0.9 * 15e6 < rate_of_requests(link) <= 15e6


def test_a_trace_repeats_itself_and_has_the_columns_of_the_schema() -> None:
    setting = labelled(DEVELOPMENT_SEED, (Cause.CONGESTION,))
    first, second = run(setting), run(setting)
    assert first.events().equals(second.events())
    assert first.events().schema.equals(arrow_schema())


def test_ranks_wait_for_the_slowest_at_each_step() -> None:
    setting = replace(Setting(), hosts=2, ranks_per_host=1, slow_host=40.0, barriers=True, steps=20)
    events = run(setting).events()
    barriers = events.filter(pc.equal(events["kind"], Kind.BARRIER.value))
    waited = {
        rank: pc.sum(barriers.filter(pc.equal(barriers["rank"], rank))["duration_ns"]).as_py()
        for rank in (0, 1)
    }
    assert waited[0] > 20 * waited[1]


def test_a_page_cache_answers_what_was_read_before_while_it_holds_it() -> None:
    setting = replace(Setting(), dataset=40, cache_samples=200, tells_cached=True, steps=30)
    cold, warm = run(setting).events(), run(replace(setting, is_warm=True)).events()
    for events, share in ((cold, 1 - 40 / 120), (warm, 1.0)):
        loads = events.filter(pc.equal(events["kind"], Kind.LOAD.value))
        cached = pc.sum(pc.map_lookup(loads["counts"], "cached_bytes", "first")).as_py()
        assert cached / pc.sum(loads["bytes"]).as_py() == pytest.approx(share, abs=0.1)


def test_healthy_jobs_have_enough_of_everything() -> None:
    for seed in range(DEVELOPMENT_SEED, DEVELOPMENT_SEED + 3):
        found = run(healthy(seed))
        assert found.waited_s < 0.05 * found.ranks_s


def test_a_job_whose_truth_is_not_plain_is_drawn_anew() -> None:
    (one, _) = COMBINATIONS[0]
    found = verdict(DEVELOPMENT_SEED, (one,))
    assert found.seed >= DEVELOPMENT_SEED
    assert found.true == (one,)
    assert found.named == (one,)


STORM, SLOW, NONE = Cause.CHECKPOINT_STORM, Cause.STRAGGLER, Cause.NONE


def test_scores_count_each_cause_of_a_job() -> None:
    verdicts = [
        Verdict(0, (STORM, SLOW), (STORM, SLOW)),
        Verdict(1, (STORM,), (SLOW,)),
        Verdict(2, (SLOW,), (NONE,)),
        Verdict(3, (NONE,), (STORM,)),
    ]
    found = scores(verdicts)
    assert (found[STORM].jobs, found[STORM].precision, found[STORM].recall) == (2, 0.5, 0.5)
    assert (found[SLOW].jobs, found[SLOW].precision, found[SLOW].recall) == (2, 0.5, 0.5)
    assert (found[NONE].precision, found[NONE].recall) == (0, 0)
    assert found[Cause.THRASH].recall == 1.0
    counts = confusion(verdicts)
    assert counts[STORM] == {STORM: 1, SLOW: 1}
    assert counts[SLOW] == {SLOW: 1, NONE: 1}
    assert counts[NONE] == {STORM: 1}


def test_the_report_has_scores_and_what_was_wrong(tmp_path: Path) -> None:
    publish(report_of([Verdict(7, (STORM,), (SLOW,))], []), tmp_path)
    written: dict[str, Any] = msgspec.json.decode((tmp_path / "diagnosis.json").read_bytes())
    assert written["modelled"]["scores"][STORM]["recall"] == 0
    assert written["modelled"]["wrong"] == [{"seed": 7, "true": [STORM], "named": [SLOW]}]
    assert written["settings"]["thresholds"]["lost_share"] == 0.02
