"""Health: a full queue is well, an empty one is critical, worse never scores better."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_model import indicators

from headrace.core.errors import ConfigError, ReportError
from headrace.policy.reservation.events import Indicators
from headrace.policy.reservation.health import (
    Health,
    HealthLimits,
    HealthTracker,
    Scale,
    level_of,
)

GOLDEN = [
    # depth, latency, cv, next batch (in batches) → score, level, worst indicator
    ((8, 0.010, 0.5, 1.0), 100.0, "healthy", "queue"),
    ((8, 0.010, 0.5, 1.0), 100.0, "healthy", "queue"),
    ((4, 0.020, 0.8, 1.0), 87.6, "healthy", "queue"),
    ((2, 0.030, 1.5, 2.0), 62.0, "healthy", "queue"),
    ((0, 0.050, 2.5, 1.5), 30.8, "danger", "queue"),
    ((0, 0.050, 2.5, 1.5), 18.1, "critical", "queue"),
    ((3, 0.020, 1.0, 1.0), 43.3, "tight", "queue"),
    ((8, 0.012, 0.6, 1.0), 79.9, "healthy", "queue"),
]
"""One host, iteration by iteration: a burst of heavy batches on a medium that slows down."""


def figures(depth: float, latency: float, cv: float, batches: float) -> Indicators:
    return indicators(
        queue_depth=depth, io_latency_s=latency, io_latency_cv=cv, next_bytes=batches * 1e8
    )


def test_golden_trace() -> None:
    tracker = HealthTracker()
    seen = [tracker.observe(figures(*given)) for given, *_ in GOLDEN]
    assert [(round(h.score, 1), h.level, h.worst) for h in seen] == [
        tuple(expected) for _, *expected in GOLDEN
    ]
    assert all(h.reason.startswith(f"score {h.score:.0f}, {h.level}: ") for h in seen)


def test_a_full_queue_stays_healthy_whatever_its_reads_look_like() -> None:
    tracker = HealthTracker()
    for _ in range(20):
        tracker.observe(indicators())
    for _ in range(20):
        health = tracker.observe(indicators(io_latency_s=10.0, io_latency_cv=50.0, next_bytes=1e12))
    assert health.score >= 90


@pytest.mark.parametrize("capacity", [1, 2, 8, 64])
def test_a_full_queue_without_trouble_scores_100(capacity: int) -> None:
    found = indicators(queue_depth=capacity, queue_capacity=capacity)
    assert HealthTracker().observe(found).score == pytest.approx(100)


@pytest.mark.parametrize("latency_s", [0.01, 0.1])
def test_a_queue_that_runs_empty_is_critical_within_two_to_four_iterations(
    latency_s: float,
) -> None:
    tracker = HealthTracker()
    for _ in range(20):
        tracker.observe(indicators())
    empty = indicators(queue_depth=0, wait_s=0.5, io_latency_s=latency_s)
    levels = [tracker.observe(empty).level for _ in range(4)]
    assert levels[0] != "critical"
    assert "critical" in levels
    assert levels[-1] == "critical"


def test_a_job_that_recovers_is_healthy_again_within_three_iterations() -> None:
    tracker = HealthTracker()
    for _ in range(20):
        tracker.observe(indicators(queue_depth=0, wait_s=1.0))
    scores = [tracker.observe(indicators()).score for _ in range(3)]
    assert scores[-1] >= 60
    assert scores == sorted(scores)


@pytest.mark.parametrize(
    ("score", "level"),
    [(100, "healthy"), (60, "healthy"), (59.9, "tight"), (40, "tight"), (39.9, "danger"),
     (20, "danger"), (19.9, "critical"), (0, "critical")],
)  # fmt: skip
def test_levels_begin_at_60_40_and_20(score: float, level: str) -> None:
    assert level_of(score) == level


def test_the_usual_latency_is_not_learned_from_a_cold_start_nor_from_congestion() -> None:
    tracker = HealthTracker()
    for _ in range(10):
        tracker.observe(indicators(io_latency_s=0.04, queue_depth=0))
    for _ in range(50):
        tracker.observe(indicators(io_latency_s=0.01))
    assert tracker.usual_latency_s == pytest.approx(0.01, rel=0.01)
    for _ in range(1000):
        tracker.observe(indicators(io_latency_s=0.1, queue_depth=0))
    assert tracker.usual_latency_s == pytest.approx(0.01, rel=0.01)


def test_a_tracker_that_begins_anew_may_be_told_what_is_usual() -> None:
    found = indicators(io_latency_s=0.04, queue_depth=4)
    told = HealthTracker(usual_latency_s=0.01).observe(found)
    assert told.latency == 0
    assert told.score < HealthTracker().observe(found).score


def test_a_new_run_begins_anew_but_for_what_is_usual() -> None:
    tracker = HealthTracker()
    for number in range(50):
        tracker.observe(indicators(iteration=number, io_latency_s=0.01))
    first = tracker.observe(indicators(iteration=0, queue_depth=0, io_latency_s=0.04))
    assert first.queue == 0
    assert first.latency == 0
    assert tracker.usual_latency_s == pytest.approx(0.01, rel=0.1)


def test_a_job_without_a_queue_is_as_well_as_it_waits() -> None:
    alone = indicators(queue_depth=0, queue_capacity=0)
    assert HealthTracker().observe(alone).score >= 90
    waits = indicators(queue_depth=0, queue_capacity=0, wait_s=30.0)
    assert HealthTracker().observe(waits).level == "critical"


WORSE = {
    "queue_depth": -1.0,
    "io_latency_s": 1.0,
    "io_latency_cv": 1.0,
    "next_bytes": 1.0,
    "read_bytes_per_s": -1.0,
}
"""Indicator → the direction in which it gets worse."""

amounts = st.floats(0, 1e12)
anything = st.builds(
    indicators,
    queue_depth=st.floats(0, 64),
    queue_capacity=st.floats(0, 64),
    wait_s=amounts,
    step_time_s=amounts,
    io_latency_s=amounts,
    io_latency_cv=amounts,
    next_bytes=amounts,
    read_bytes_per_s=amounts,
)


@settings(deadline=None)
@given(st.lists(anything, min_size=1, max_size=20))
def test_scores_lie_in_0_to_100_and_say_so_in_words(trace: list[Indicators]) -> None:
    tracker = HealthTracker()
    for found in trace:
        health = tracker.observe(found)
        parts = (health.queue, health.latency, health.variation, health.next_batch)
        assert all(0 <= score <= 100 for score in (*parts, health.score))
        assert health.level in health.reason


@settings(deadline=None)
@given(
    history=st.lists(anything, max_size=8),
    name=st.sampled_from(sorted(WORSE)),
    values=st.lists(st.floats(1, 1e10), min_size=2, max_size=5),
    rest=anything,
)
def test_a_worse_indicator_never_makes_a_better_score(
    history: list[Indicators], name: str, values: list[float], rest: Indicators
) -> None:
    values = sorted(values, key=lambda value: WORSE[name] * value)
    healths = [last_health([*history, changed(rest, name, value)]) for value in values]
    for better, worse in pairwise(healths):
        assert worse.score <= better.score + 1e-6


def changed(found: Indicators, name: str, value: float) -> Indicators:
    kept = {field: getattr(found, field) for field in (*WORSE, "queue_capacity", "step_time_s")}
    return indicators(**(kept | {name: value}))


def last_health(trace: list[Indicators]) -> Health:
    tracker = HealthTracker()
    return [tracker.observe(found) for found in trace][-1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize(
    "name",
    ["wait_s", "queue_depth", "io_latency_s", "io_latency_cv", "next_bytes", "hit_rate",
     "queue_share", "throttled_share", "transform_share", "nic_bytes_per_s"],
)  # fmt: skip
def test_a_report_that_cannot_be_true_is_refused_and_changes_nothing(
    name: str, value: float
) -> None:
    disturbed, calm = HealthTracker(), HealthTracker()
    for tracker in (disturbed, calm):
        tracker.observe(indicators())
    with pytest.raises(ReportError, match=name):
        disturbed.observe(indicators(**{name: value}))
    found = indicators(queue_depth=3, io_latency_s=0.02)
    assert disturbed.observe(found) == calm.observe(found)


def test_shares_above_1_and_wrong_parts_of_a_split_are_refused() -> None:
    with pytest.raises(ReportError, match=r"queue_share=1\.5 must lie in 0 to 1"):
        HealthTracker().observe(indicators(queue_share=1.5))
    with pytest.raises(ReportError, match=r"split\.hdd=nan"):
        HealthTracker().observe(indicators(split={"hdd": float("nan")}))  # type: ignore[arg-type]
    with pytest.raises(ReportError, match=r"nic_bytes_per_s=1e\+300 must be at most"):
        HealthTracker().observe(indicators(nic_bytes_per_s=1e300))
    with pytest.raises(ReportError, match="upcoming_bytes=-1"):
        HealthTracker().observe(indicators(upcoming_bytes=(1.0, -1.0)))  # type: ignore[arg-type]


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="smoothing"):
        HealthLimits(smoothing=0)
    with pytest.raises(ConfigError, match="weights"):
        HealthLimits(queue_weight=-1)
    with pytest.raises(ConfigError, match="reach"):
        HealthLimits(reach=101)
    with pytest.raises(ConfigError, match="queue"):
        HealthLimits(queue=Scale(good=0, bad=1))
    with pytest.raises(ConfigError, match="latency"):
        HealthLimits(latency=Scale(good=4, bad=1))
