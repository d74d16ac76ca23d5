"""Max-min: everything is given, nobody gets too much, and only the worse off are served first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.reservation.fairness import jain_index, max_min, max_min_regret

RATES = st.floats(min_value=0.0, max_value=1e10)
WEIGHTS = st.floats(min_value=0.1, max_value=10.0)
CLAIMS = st.lists(st.tuples(RATES, WEIGHTS, RATES), min_size=1, max_size=12)


def progressive_filling(
    wanted: list[float], capacity: float, weights: list[float], minima: list[float]
) -> list[float]:
    """Return the same division by bisecting the level: slow, and plain to see."""
    least = [min(m, w) for m, w in zip(minima, wanted, strict=True)]
    low, high = 0.0, 1e12
    for _ in range(200):
        level = (low + high) / 2
        filled = [min(max(level * s, m), w) for s, m, w in zip(weights, least, wanted, strict=True)]
        low, high = (level, high) if sum(filled) <= capacity else (low, level)
    return [min(max(low * s, m), w) for s, m, w in zip(weights, least, wanted, strict=True)]


def test_the_small_get_what_they_want_and_the_large_share_the_rest() -> None:
    assert max_min([1, 4, 9], capacity=9, weights=[1, 1, 1]).tolist() == pytest.approx([1, 4, 4])


def test_weights_scale_what_is_shared() -> None:
    assert max_min([9, 9], capacity=9, weights=[1, 2]).tolist() == pytest.approx([3, 6])


def test_a_minimum_is_kept_whatever_others_want() -> None:
    granted = max_min([9, 9, 9], capacity=9, weights=[1, 1, 1], minima=[5, 0, 0])
    assert granted.tolist() == pytest.approx([5, 2, 2])


def test_a_minimum_that_is_not_wanted_is_left_to_others() -> None:
    granted = max_min([1, 9], capacity=9, weights=[1, 1], minima=[5, 0])
    assert granted.tolist() == pytest.approx([1, 8])


def test_minima_that_do_not_fit_are_cut_alike() -> None:
    granted = max_min([8, 8], capacity=6, weights=[1, 1], minima=[8, 4])
    assert granted.tolist() == pytest.approx([4, 2])


def test_tiers_are_divided_independently() -> None:
    wanted = np.array([[1.0, 4.0, 9.0], [2.0, 2.0, 2.0]])
    granted = max_min(wanted, capacity=np.array([9.0, 12.0]), weights=np.ones((2, 3)))
    assert granted.tolist() == [pytest.approx([1, 4, 4]), pytest.approx([2, 2, 2])]


def test_nothing_is_divided_among_nobody() -> None:
    assert max_min(np.zeros((2, 0)), capacity=[1, 1], weights=np.zeros((2, 0))).shape == (2, 0)


@given(CLAIMS, RATES)
def test_it_agrees_with_progressive_filling(
    claims: list[tuple[float, float, float]], capacity: float
) -> None:
    wanted, weights, minima = (list(column) for column in zip(*claims, strict=True))
    if sum(min(m, w) for m, w in zip(minima, wanted, strict=True)) > capacity:
        return
    granted = max_min(wanted, capacity=capacity, weights=weights, minima=minima)
    expected = progressive_filling(wanted, capacity, weights, minima)
    assert granted.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(CLAIMS, RATES)
def test_everything_is_given_and_nothing_more(
    claims: list[tuple[float, float, float]], capacity: float
) -> None:
    wanted, weights, minima = (np.array(column) for column in zip(*claims, strict=True))
    granted = max_min(wanted, capacity=capacity, weights=weights, minima=minima)
    assert granted.sum() <= capacity
    assert (granted <= wanted * (1 + 1e-12)).all() and (granted >= 0).all()
    assert granted.sum() == pytest.approx(min(capacity, wanted.sum()), rel=1e-9, abs=1e-6)


@given(CLAIMS, RATES, st.floats(min_value=1.0, max_value=3.0))
def test_a_larger_weight_never_gets_less(
    claims: list[tuple[float, float, float]], capacity: float, factor: float
) -> None:
    wanted, weights, minima = (np.array(column) for column in zip(*claims, strict=True))
    before = max_min(wanted, capacity=capacity, weights=weights, minima=minima)
    weights[0] *= factor
    after = max_min(wanted, capacity=capacity, weights=weights, minima=minima)
    assert after[0] >= before[0] * (1 - 1e-9) - 1e-6


def test_jains_index_is_one_for_equals_and_one_nth_for_a_hog() -> None:
    assert jain_index([3, 3, 3]) == pytest.approx(1.0)
    assert jain_index([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain_index([0, 0]) == 1.0


def test_regret_is_the_largest_part_of_its_due_that_somebody_lacks() -> None:
    assert max_min_regret([4, 5], [4, 10]) == pytest.approx(0.5)
    assert max_min_regret([9, 9], [4, 0]) == 0.0
