"""What samples turned out to take corrects what their headers said of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.estimate import KEPT, Estimates


def learned(*ratios: float, foreseen_s: float = 0.01, kind: str = "video") -> Estimates:
    estimates = Estimates()
    for ratio in ratios:
        estimates.learn(kind, foreseen_s=foreseen_s, seconds=ratio * foreseen_s)
    return estimates


def test_nothing_is_corrected_before_anything_was_measured() -> None:
    assert Estimates().cost_s("image", 0.02) == 0.02


def test_one_sample_is_enough_to_correct_its_kind_and_no_other() -> None:
    estimates = learned(3.0)
    assert estimates.cost_s("video", 0.01) == pytest.approx(0.03)
    assert estimates.cost_s("video", 2.0) == pytest.approx(6.0)
    assert estimates.cost_s("image", 0.01) == 0.01


@given(st.lists(st.floats(0.001, 1e4), max_size=KEPT // 2))
def test_fewer_than_half_of_any_outliers_change_nothing_much(outliers: list[float]) -> None:
    honest = [1.9, 2.0, 2.1] * 5
    estimates = learned(*honest, *outliers)
    assert 1.9 <= estimates.cost_s("video", 0.01) / 0.01 <= 2.1


def test_heavy_samples_are_corrected_by_heavy_ones() -> None:
    """Where a clip costs less than its header says the longer it is, as with few frames taken."""
    estimates = learned(*[1.0] * 9)
    for _ in range(3):
        estimates.learn("video", foreseen_s=4.0, seconds=0.4)
    assert estimates.cost_s("video", 0.01) == pytest.approx(0.01)
    assert estimates.cost_s("video", 5.0) == pytest.approx(0.5)


def test_it_follows_when_the_host_gets_slower() -> None:
    estimates = learned(*[1.0] * KEPT, *[4.0] * KEPT)
    assert estimates.cost_s("video", 0.01) == pytest.approx(0.04)


def test_it_says_when_estimates_changed_and_only_then() -> None:
    estimates = learned(2.0)
    assert not estimates.learn("video", foreseen_s=0.01, seconds=0.021)
    told = [estimates.learn("video", foreseen_s=0.01, seconds=0.05) for _ in range(5)]
    assert any(told)
    assert not told[-1]


def test_what_saves_no_time_is_no_change_worth_estimating_anew() -> None:
    estimates = learned(1.0)
    ratios = (5.0, 0.2, 20.0, 1.0) * KEPT
    told = [estimates.learn("text", foreseen_s=2e-4, seconds=r * 2e-4) for r in ratios]
    assert sum(told) <= 1
