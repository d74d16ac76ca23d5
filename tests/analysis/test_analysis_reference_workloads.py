"""Traces of the shipped models, analysed as any other, give back what was published."""

from __future__ import annotations

from functools import cache

import pytest

from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import JobFigures
from headrace.analysis.workload.model import SHIPPED, find_model
from headrace.analysis.workload.synthesis import Synthesis
from headrace.trace.importer import Notes

WITHIN = 0.05
COLUMNS = {
    "T-S": (5.77, 137.58, 56.27, 14.03),
    "T-L": (5.51, 0.01, 25.74, 8.27),
    "MM-S": (8.64, 300.33, 106.83, 19.20),
    "MM-L": (5.29, 139.25, 68.31, 18.17),
    "MM-O": (6.16, 106.83, 128.60, 14.39),
}
"""Loading, reading a checkpoint, saving one, a step [s]."""

BREAKDOWN = {"metadata": 0.001, "retrieval": 0.0004, "transformation": 0.944, "overhead": 0.005}
RANKS, STEPS = 256, 50


@cache
def analysed(name: str) -> JobFigures:
    analyser = Analyser()
    for batch in Synthesis(find_model(name), ranks=RANKS, steps=STEPS, seed=1).batches():
        analyser.add(batch)
    (job,) = analyser.result(format_name="headrace", notes=Notes()).jobs
    return job


@pytest.mark.parametrize("name", SHIPPED)
def test_the_published_columns_come_back(name: str) -> None:
    job = analysed(name)
    assert (job.ranks, job.steps) == (RANKS, STEPS)
    assert job.loading and job.checkpoint_read and job.checkpoint_save and job.step_s
    found = (
        job.loading.latency_s.mean,
        job.checkpoint_read.per_rank_s.mean,
        job.checkpoint_save.per_rank_s.mean,
        job.step_s.mean,
    )
    assert found == pytest.approx(COLUMNS[name], rel=WITHIN)


def test_the_published_breakdown_comes_back() -> None:
    loading = analysed("MM-L").loading
    assert loading
    found = {kind: part.per_load_s / loading.latency_s.mean for kind, part in loading.parts.items()}
    assert found == pytest.approx(BREAKDOWN, rel=WITHIN)
    assert loading.latency_s.mean == pytest.approx(5.35, rel=WITHIN)


def test_retrieval_itself_takes_as_long_as_was_published() -> None:
    requests = analysed("MM-L").requests
    assert requests and requests.latency_s
    assert requests.latency_s.mean == pytest.approx(0.0136, rel=WITHIN)
    retrieval = analysed("MM-L").loading.parts["retrieval"].total_s
    assert requests.latency_s.total == pytest.approx(retrieval, rel=WITHIN)


def test_the_published_gaps_of_stragglers_come_back() -> None:
    slowest = analysed("MM-L").loading.stragglers
    assert slowest
    assert slowest.slowest_mean_s == pytest.approx(42.72, rel=WITHIN)
    assert slowest.mean_s == pytest.approx(5.35, rel=WITHIN)
    for text in ("T-S", "T-L"):
        gap = analysed(text).loading.stragglers
        assert gap and gap.gap_s < 0.3


def test_ten_thousand_accelerator_hours_a_day_are_lost() -> None:
    job = analysed("MM-L")
    assert job.wait_s and job.step_s
    lost = job.wait_s.total / job.step_s.total * find_model("MM-L").ranks * 24
    assert lost == pytest.approx(10_000, rel=WITHIN)
