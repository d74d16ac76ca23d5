"""The regulator: calm near its target, bounded everywhere, and never wound up."""

from __future__ import annotations

import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st
from queue_model import BATCH, run_loop

from headrace.core.errors import ConfigError, ReportError
from headrace.policy.reservation.media import HDD, LINK, PROFILES, SSD
from headrace.policy.reservation.regulator import Gains, Regulator, RegulatorLimits

GOLDEN: dict[str, list[float]] = {
    "ssd": [0, 0, 0, 13.23, 20, 20, 9.08, 0.8, -20, -20, -4.74, -15.6, 7.73],
    "hdd": [0, 0, 0, 10.45, 20, 20, 16.19, 9.01, -12.93, -20, -9.93, -16.43, 0.23],
}
"""Medium → change of the quota [%] for each of ``SCORES``."""

SCORES = [75.0, 78.0, 71.0, 60.0, 40.0, 20.0, 12.0, 12.0, 30.0, 70.0, 82.0, 100.0, 100.0]
"""A job that runs dry and recovers."""

scores = st.floats(0, 100)
quotas = st.floats(1e6, 1e12)
gains = st.sampled_from([SSD, HDD, LINK])


@pytest.mark.parametrize("medium", ["ssd", "hdd"])
def test_golden_trace(medium: str) -> None:
    regulator, quota, changes = Regulator(PROFILES[medium]), 1e9, []  # type: ignore[index]
    for score in SCORES:
        adjustment = regulator.adjust(score, granted=quota)
        quota = adjustment.wanted
        changes.append(round(100 * adjustment.change, 2))
    assert changes == GOLDEN[medium]


@given(gains, st.lists(st.tuples(scores, quotas), min_size=1, max_size=30))
def test_no_adjustment_changes_a_quota_by_more_than_a_fifth(
    profile: Gains, trace: list[tuple[float, float]]
) -> None:
    regulator = Regulator(profile)
    for score, granted in trace:
        adjustment = regulator.adjust(score, granted=granted)
        assert 0.8 * granted * (1 - 1e-9) <= adjustment.wanted <= 1.2 * granted * (1 + 1e-9)
        assert adjustment.wanted == pytest.approx(granted * (1 + adjustment.change))


@given(gains, st.lists(scores, max_size=20), st.floats(70.01, 79.99), quotas)
def test_within_the_dead_band_a_quota_is_left_exactly_as_it_is(
    profile: Gains, history: list[float], score: float, granted: float
) -> None:
    regulator = Regulator(profile)
    for before in history:
        regulator.adjust(before, granted=granted)
    adjustment = regulator.adjust(score, granted=granted)
    assert adjustment.wanted == granted
    assert not adjustment.saturated


@given(gains, st.floats(70.5, 79.5), st.integers(1, 200))
def test_time_in_the_dead_band_leaves_no_kick_for_later(
    profile: Gains, score: float, iterations: int
) -> None:
    long, short = Regulator(profile), Regulator(profile)
    for _ in range(iterations + 50):
        long.adjust(score, granted=1e9)
    for _ in range(50):
        short.adjust(score, granted=1e9)
    after_long = long.adjust(65, granted=1e9).change
    assert after_long == pytest.approx(short.adjust(65, granted=1e9).change, abs=1e-4)


@given(gains, st.lists(scores, max_size=10), scores, scores)
def test_the_worse_the_health_the_more_is_wished_for(
    profile: Gains, history: list[float], one: float, other: float
) -> None:
    changes = []
    for last in sorted((one, other)):
        regulator = Regulator(profile, RegulatorLimits(dead_band=0))
        for score in history:
            regulator.adjust(score, granted=1e9)
        changes.append(regulator.adjust(last, granted=1e9).change)
    assert changes[0] >= changes[1] - 1e-12


@given(gains, scores.filter(lambda score: score < 60), st.integers(1, 2000))
@example(SSD, 0.0, 2000)
def test_a_job_refused_for_long_gives_way_with_the_first_score_above_the_target(
    profile: Gains, score: float, iterations: int
) -> None:
    regulator = Regulator(profile)
    for _ in range(iterations):
        refused = regulator.adjust(score, granted=1e8)
    assert refused.wanted <= 1.2e8 * (1 + 1e-9)
    first = regulator.adjust(85, granted=1e8)
    second = regulator.adjust(85, granted=first.wanted)
    assert min(first.change, second.change) < 0


@given(gains, scores, quotas)
def test_a_regulator_takes_over_a_running_quota_without_a_jump(
    profile: Gains, score: float, granted: float
) -> None:
    first = Regulator(profile).adjust(score, granted=granted)
    assert first.wanted == granted


@seed(20)
@settings(max_examples=60, deadline=None)
@given(
    profile=gains,
    capacity=st.sampled_from([2, 3, 4, 8, 16, 32]),
    lag=st.floats(0, 4),
    before=st.floats(0.5, 2),
    after=st.floats(0.5, 2),
)
@example(profile=SSD, capacity=2, lag=4.0, before=0.5, after=2.0)
@example(profile=HDD, capacity=32, lag=4.0, before=2.0, after=0.5)
def test_the_loop_comes_to_rest_after_a_jump_of_the_need(
    profile: Gains, capacity: int, lag: float, before: float, after: float
) -> None:
    needs = [before] * 200 + [after] * 600
    moments = run_loop(profile, needs, capacity=capacity, lag=lag, begin=before)
    rest = moments[-200:]
    assert not any(moment.wait_s for moment in rest)
    assert all(60 <= moment.score <= 90 for moment in rest)
    swing = max(m.quota for m in rest) - min(m.quota for m in rest)
    assert swing < 0.2 * after


@pytest.mark.parametrize("profile", [SSD, HDD, LINK])
def test_a_starved_job_reaches_its_need_within_ten_iterations(profile: Gains) -> None:
    moments = run_loop(profile, [1.0] * 60, begin=0.4)
    dry = next(at for at, moment in enumerate(moments) if moment.depth == 0)
    enough = next(at for at, m in enumerate(moments) if at > dry and m.quota >= 1)
    assert enough - dry <= 10
    assert sum(moment.wait_s for moment in moments[20:]) == 0


@pytest.mark.parametrize("profile", [SSD, HDD, LINK])
def test_after_a_shortage_the_loop_rests_as_if_there_had_been_none(profile: Gains) -> None:
    budget = iter([0.6] * 300 + [10.0] * 300)
    moments = run_loop(profile, [1.0] * 600, grant=lambda wanted: min(wanted, next(budget)))
    assert moments[299].score < 20
    assert not any(moment.wait_s for moment in moments[320:])
    assert max(moment.quota for moment in moments[300:]) < 2.0
    assert all(60 <= moment.score <= 90 for moment in moments[500:])


def test_quotas_are_wished_for_between_floor_and_ceiling() -> None:
    limits = RegulatorLimits(floor=5e6, ceiling=6e6)
    regulator = Regulator(SSD, limits)
    regulator.adjust(10, granted=5.9e6)
    assert regulator.adjust(10, granted=5.9e6).wanted == 6e6
    assert regulator.adjust(10, granted=0.0).wanted == 5e6
    assert regulator.adjust(10, granted=0.0).saturated


def test_several_iterations_at_once_count_for_each() -> None:
    once, often = Regulator(SSD), Regulator(SSD)
    for regulator in (once, often):
        regulator.adjust(60, granted=1e9)
    assert often.adjust(60, granted=1e9, iterations=4).change == pytest.approx(
        4 * once.adjust(60, granted=1e9).change
    )


def test_the_reason_tells_the_change_and_the_error() -> None:
    regulator = Regulator(HDD)
    assert regulator.adjust(50, granted=BATCH).reason == "left alone: +25 points from the target"
    limited = regulator.adjust(0, granted=BATCH)
    assert limited.reason == "+20.0%: +75 points from the target, as far as one adjustment may go"


@pytest.mark.parametrize(
    ("score", "granted", "iterations"),
    [(-1, 1e9, 1), (101, 1e9, 1), (float("nan"), 1e9, 1), (50, float("nan"), 1),
     (50, -1.0, 1), (50, float("inf"), 1), (50, 1e9, 0)],
)  # fmt: skip
def test_what_cannot_be_true_is_refused(score: float, granted: float, iterations: int) -> None:
    with pytest.raises(ReportError):
        Regulator(SSD).adjust(score, granted=granted, iterations=iterations)


def test_limits_and_gains_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="gains"):
        Gains(proportional=-1, integral=0, derivative=0)
    with pytest.raises(ConfigError, match="derivative_iterations"):
        Gains(proportional=1, integral=0, derivative=0, derivative_iterations=0)
    with pytest.raises(ConfigError, match="step"):
        RegulatorLimits(step=1)
    with pytest.raises(ConfigError, match="floor"):
        RegulatorLimits(floor=2, ceiling=1)
    with pytest.raises(ConfigError, match="target"):
        RegulatorLimits(target=3)
    with pytest.raises(ConfigError, match="far"):
        RegulatorLimits(far=0)


def test_ssd_has_less_integral_and_more_derivative_than_hdd() -> None:
    assert SSD.integral < HDD.integral
    assert SSD.derivative > HDD.derivative
