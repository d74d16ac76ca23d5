"""The budget holds over every second, for large pieces and for thousands of small ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.budget import (
    LEAST_BYTES_PER_S,
    REQUEST_BYTES,
    BudgetLine,
    Grant,
    WindowBudget,
)

RATE = 50e6


@dataclass
class Moved:
    """A piece that crosses the link somewhere between its grant and its end."""

    nbytes: int
    began: float
    ended: float = math.inf

    def may_touch(self, start: float) -> bool:
        """Tell whether any of its bytes may cross in the second from ``start`` on."""
        return self.began < start + 1.0 and self.ended > start


def most_of_any_second(moved: list[Moved]) -> int:
    """Return the most bytes that may have crossed in one second, all pieces at their worst."""
    starts = {one.began for one in moved} | {one.ended - 1e-9 for one in moved}
    return max(
        sum(one.nbytes + REQUEST_BYTES for one in moved if one.may_touch(start)) for start in starts
    )


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    asks=st.lists(
        st.tuples(
            st.sampled_from((1, 4096, 100_000, 1 << 20)),
            st.floats(0.0, 0.2),  # between two asks [s]
            st.floats(0.0, 0.8),  # that a piece takes [s]
        ),
        max_size=150,
    )
)
def test_no_second_sees_more_than_the_budget_whenever_pieces_cross(
    asks: list[tuple[int, float, float]],
) -> None:
    """Seed: derandomized. A piece may cross at once or spread over its whole time."""
    budget, now = WindowBudget(RATE), 0.0
    moved: list[Moved] = []
    under_way: list[tuple[float, Grant, Moved]] = []
    for nbytes, pause, duration in asks:
        now += pause
        for at, grant, piece in sorted(under_way, key=lambda one: one[0]):
            if at <= now:
                budget.end(grant, at)
                piece.ended = at
        under_way = [one for one in under_way if one[0] > now]
        granted = budget.take_nowait(nbytes, now)
        if granted is not None:
            moved.append(Moved(nbytes, now))
            under_way.append((now + duration, granted, moved[-1]))
    for at, _, piece in under_way:
        piece.ended = at
    assert not moved or most_of_any_second(moved) <= RATE


@pytest.mark.parametrize("nbytes", [4096, 1 << 20])
def test_a_budget_that_is_always_asked_is_used_up(nbytes: int) -> None:
    budget, now, granted = WindowBudget(RATE), 0.0, 0
    while now < 5.0:
        grant = budget.take_nowait(nbytes, now)
        if grant is None:
            now = budget.free_at(nbytes, now)
        else:
            granted += nbytes + REQUEST_BYTES
            budget.end(grant, now + 0.01)
    assert 0.93 * RATE <= granted / 5.0 <= RATE * 1.05


def test_grants_are_spread_over_the_second() -> None:
    budget, granted = WindowBudget(RATE), 0
    while budget.take_nowait(1 << 20, 0.0) is not None:
        granted += 1 << 20
    assert granted <= 0.1 * RATE


def test_pieces_that_never_end_take_the_budget_and_no_more() -> None:
    budget, now, granted = WindowBudget(RATE), 0.0, 0
    for _ in range(1000):
        now += 0.05
        granted += (1 << 20) * (budget.take_nowait(1 << 20, now) is not None)
    assert 0.9 * RATE <= granted <= RATE
    assert budget.free_at(1 << 20, now) == math.inf


def test_a_piece_is_ended_once() -> None:
    budget = WindowBudget(RATE)
    grant = budget.take_nowait(1 << 20, 0.0)
    assert grant is not None
    budget.end(grant, 0.0)
    budget.end(grant, 0.0)
    held = [budget.take_nowait(1 << 20, 2.0 + n) for n in range(200)]
    assert sum(one is not None for one in held) == int(RATE // ((1 << 20) + REQUEST_BYTES))


def test_a_piece_longer_than_its_part_of_a_second_is_refused() -> None:
    with pytest.raises(ConfigError, match="ask for"):
        WindowBudget(LEAST_BYTES_PER_S).take_nowait(1 << 20, 0.0)
    assert WindowBudget(LEAST_BYTES_PER_S).piece_bytes >= 4096


@pytest.mark.parametrize("rate", [0.0, -1.0, 1000.0, math.nan, math.inf])
def test_a_budget_that_cannot_be_kept_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="256KiB"):
        WindowBudget(rate)


def test_the_urgent_is_served_first_and_equals_take_turns() -> None:
    line, now = BudgetLine(WindowBudget(RATE)), 0.0
    waiting = {
        line.join(1 << 20, rank): name for name, rank in (("a", 1.0), ("b", 1.0), ("u", 0.0))
    }
    served = []
    while waiting:
        now += 0.1
        for ticket, name in list(waiting.items()):
            if line.take_nowait(ticket, now) is not None:
                served.append(name)
                del waiting[ticket]
    assert served == ["u", "a", "b"]


def test_who_leaves_the_line_holds_nobody_up() -> None:
    line = BudgetLine(WindowBudget(RATE))
    first, second, third = (line.join(4096, 1.0) for _ in range(3))
    line.leave(second)
    line.leave(first)
    assert line.first() is third
    assert line.take_nowait(third, 0.0) is not None
    assert line.first() is None


def test_a_share_takes_its_part_of_every_second_until_a_second_after_its_end() -> None:
    budget = WindowBudget(RATE)
    share = budget.share_nowait(0.6 * RATE, 0.0)
    assert share is not None
    assert budget.share_nowait(0.6 * RATE, 5.0) is None
    assert budget.share_free_at(0.6 * RATE, 5.0) == math.inf
    assert granted_in_a_second(budget, 5.0) <= 0.4 * RATE
    budget.end(share, 10.0)
    assert granted_in_a_second(budget, 10.0) <= 0.4 * RATE
    assert granted_in_a_second(budget, 11.5) >= 0.5 * RATE


def granted_in_a_second(budget: WindowBudget, start: float) -> float:
    """Return what is granted in a second to who asks all the time; pieces end at once."""
    granted, now = 0.0, start
    while now < start + 1.0:
        grant = budget.take_nowait(1 << 20, now)
        if grant is not None:
            granted += grant.cost
            budget.end(grant, now)
        now += 0.005
    return granted


def test_a_share_waits_in_the_line_like_a_piece() -> None:
    line = BudgetLine(WindowBudget(RATE))
    piece, share = line.join(4096, 1.0), line.join(int(RATE / 8), 0.0, is_share=True)
    assert line.take_nowait(piece, 0.0) is None
    assert line.free_at(share, 0.0) == 0.0
    assert line.take_nowait(share, 0.0) is not None
    assert line.take_nowait(piece, 0.0) is not None
