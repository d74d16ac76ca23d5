"""A tier's quotas divided over those who read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.controller.division import OPEN_SHARE, Floats, divide

INF = np.inf


def rates(*values: float) -> Floats:
    return np.array(values)


def test_parts_follow_use_but_for_what_is_held_open() -> None:
    parts = divide(
        rates(100.0),
        np.array([[30.0, 10.0]]),
        held=np.array([[INF, INF]]),
        room=rates(1.0, 1.0),
        capacity=rates(INF, INF),
    )
    open_part = 100.0 * OPEN_SHARE / 2
    assert parts[0] == pytest.approx([open_part + 90.0 * 0.75, open_part + 90.0 * 0.25])


def test_a_job_that_read_nothing_yet_may_begin_wherever_there_is_room() -> None:
    parts = divide(
        rates(90.0),
        np.array([[0.0, 0.0]]),
        held=np.array([[INF, INF]]),
        room=rates(1.0, 2.0),
        capacity=rates(INF, INF),
    )
    assert parts[0] == pytest.approx([30.0, 60.0])


def test_a_reader_that_used_all_of_its_part_gets_more_in_the_next_division() -> None:
    held = np.array([[10.0, 90.0]])
    for _ in range(8):
        use = np.array([[held[0, 0], min(held[0, 1], 20.0)]])
        held = divide(rates(100.0), use, held=held, room=rates(1.0, 1.0), capacity=rates(INF, INF))
    assert held[0, 0] > 70.0


def test_what_a_full_reader_leaves_goes_to_one_with_room() -> None:
    parts = divide(
        rates(100.0),
        np.array([[50.0, 0.0]]),
        held=np.array([[INF, INF]]),
        room=rates(1.0, 1.0),
        capacity=rates(40.0, 80.0),
    )
    assert parts[0] == pytest.approx([40.0, 60.0])


@st.composite
def estates(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    jobs, readers = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    amount = st.floats(0.0, 1e10)

    def table(rows: int, columns: int) -> Floats:
        row = st.lists(amount, min_size=columns, max_size=columns)
        return np.array(draw(st.lists(row, min_size=rows, max_size=rows)))

    capacity = np.array(draw(st.lists(st.floats(1.0, 1e10), min_size=readers, max_size=readers)))
    if draw(st.booleans()):
        capacity[-1] = INF
    room = np.where(np.isfinite(capacity), capacity, 1.0)
    quotas = table(1, jobs)[0]
    return quotas, table(jobs, readers), table(jobs, readers), room, capacity


@seed(11)
@settings(max_examples=400, deadline=None)
@given(estates())
def test_no_job_gets_more_than_its_quota_and_no_reader_more_than_it_can_give(
    estate: tuple[Floats, Floats, Floats, Floats, Floats],
) -> None:
    quotas, use, held, room, capacity = estate
    parts = divide(quotas, use, held=held, room=room, capacity=capacity)
    assert (parts >= 0).all()
    assert (parts.sum(axis=1) <= quotas * (1 + 1e-9)).all()
    assert (parts.sum(axis=0) <= capacity * (1 + 1e-9)).all()


@seed(12)
@settings(max_examples=400, deadline=None)
@given(estates())
def test_nothing_is_held_back_that_some_reader_could_give(
    estate: tuple[Floats, Floats, Floats, Floats, Floats],
) -> None:
    quotas, use, held, room, capacity = estate
    parts = divide(quotas, use, held=held, room=room, capacity=capacity)
    short = quotas.sum() - parts.sum()
    slack = np.where(np.isfinite(capacity), capacity - parts.sum(axis=0), 0.0).sum()
    assert (
        short <= 1e-6 * max(quotas.sum(), 1.0)
        or slack <= 1e-6 * capacity[np.isfinite(capacity)].sum()
    )
