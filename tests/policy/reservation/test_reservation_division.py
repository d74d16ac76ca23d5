"""One round of division, as plain arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.reservation.division import (
    Claims,
    held_up,
    is_good_enough,
    moved,
    ordinary,
    parts_of,
    spread,
)


def claims(want: npt.ArrayLike, *, must: npt.ArrayLike = 0.0, parts: npt.ArrayLike = 1.0) -> Claims:
    """Return claims of equals, without guarantees."""
    wanted = np.atleast_2d(np.asarray(want, dtype=float))
    return Claims(
        must=np.broadcast_to(np.asarray(must, dtype=float), wanted.shape),
        want=wanted,
        keep=np.zeros(wanted.shape),
        weights=np.ones(wanted.shape),
        parts=np.broadcast_to(np.asarray(parts, dtype=float), wanted.shape),
    )


def test_what_deadlines_need_comes_before_what_fills_queues() -> None:
    granted = ordinary(claims([[90, 90]], must=[[60, 10]]), np.array([80.0]))
    assert granted.tolist() == [pytest.approx([60, 20])]


def test_a_job_that_one_tier_holds_up_leaves_the_others_to_those_who_can_use_them() -> None:
    both = claims([[100, 100], [100, 0]], parts=[[0.5, 1.0], [0.5, 0.0]])
    bounded = held_up(both, np.array([120.0, 10.0]), 0.1)
    assert bounded.want[0].tolist() == pytest.approx([11, 100])
    assert bounded.want[1].tolist() == pytest.approx([100, 0]), "the slow tier is wanted as before"


def test_what_is_over_is_spread_by_shares() -> None:
    shares = np.array([[0.75, 0.25]])
    assert spread(np.array([[10.0, 30.0]]), shares, np.array([80.0])).tolist() == [
        pytest.approx([40, 40])
    ]


def test_quotas_that_suffice_are_left_alone() -> None:
    standing = np.array([50.0, 50.0])
    assert is_good_enough(standing, np.array([20.0, 49.0]), capacity=100.0, tolerance=0.02)


@pytest.mark.parametrize(
    ("standing", "why"), [([80, 20], "short"), ([60, 60], "over"), ([25, 50], "idle")]
)
def test_quotas_are_divided_anew_when(standing: list[float], why: str) -> None:
    entitled = np.array([20.0, 49.0])
    assert not is_good_enough(np.array(standing), entitled, capacity=100.0, tolerance=0.02), why


def test_small_differences_are_not_worth_a_change() -> None:
    before, target = np.array([50.0, 30.0]), np.array([50.5, 49.0])
    assert moved(before, target, capacity=100.0, tolerance=0.02).tolist() == [50.0, 49.0]


RATES = st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=8)


@given(RATES, st.floats(1.0, 1e10))
def test_changes_never_exceed_the_capacity(
    rates: list[tuple[float, float]], capacity: float
) -> None:
    standing, wanted = (np.array(column) for column in zip(*rates, strict=True))
    entitled = wanted * min(capacity / max(wanted.sum(), 1e-9), 1.0) * (1 - 1e-9)
    target = spread(entitled[None, :], parts_of(np.ones((1, len(rates)))), np.array([capacity]))[0]
    quotas = moved(standing, target, capacity=capacity, tolerance=0.02)
    assert quotas.sum() <= capacity * (1 + 1e-12)
    assert (quotas >= entitled * 0.979 - 1e-9).all()
