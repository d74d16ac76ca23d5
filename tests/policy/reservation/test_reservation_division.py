"""One round of division, as plain arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.reservation.division import Claims, changes, held_up, ordinary, spread


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


def test_half_of_what_is_over_goes_by_size_and_half_by_weight() -> None:
    given_out = spread(np.array([[10.0, 30.0]]), np.array([1.0, 1.0]), np.array([80.0]))
    assert given_out.tolist() == [pytest.approx([10 + 5 + 10, 30 + 15 + 10])]


def test_quotas_that_suffice_are_left_alone() -> None:
    standing = np.array([50.0, 50.0])
    kept = changes(
        standing, np.array([20.0, 49.0]), np.array([30.0, 70.0]), capacity=100.0, tolerance=0.02
    )
    assert kept is standing


def test_spare_is_taken_back_as_soon_as_somebody_lacks_something() -> None:
    moved = changes(
        np.array([80.0, 20.0]),
        np.array([20.0, 49.0]),
        np.array([29.0, 71.0]),
        capacity=100.0,
        tolerance=0.02,
    )
    assert moved.tolist() == [29.0, 71.0]


RATES = st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=8)


@given(RATES, st.floats(1.0, 1e10))
def test_changes_never_exceed_the_capacity(
    rates: list[tuple[float, float]], capacity: float
) -> None:
    standing, wanted = (np.array(column) for column in zip(*rates, strict=True))
    entitled = wanted * min(capacity / max(wanted.sum(), 1e-9), 1.0) * (1 - 1e-9)
    target = spread(entitled[None, :], np.ones(len(rates)), np.array([capacity]))[0]
    moved = changes(standing, entitled, target, capacity=capacity, tolerance=0.02)
    assert moved.sum() <= capacity * (1 + 1e-12)
    assert (moved >= entitled * 0.979 - 1e-9).all()
