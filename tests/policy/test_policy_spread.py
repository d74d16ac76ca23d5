"""Spreading: stable, even, the same for every order of the names."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import CallerError
from headrace.policy.spread import choose, holders

KEYS = [f"step-100/rank{n}.bin@{n << 20}" for n in range(2000)]
AGENTS = [f"agent-{n}" for n in range(10)]
NAMES = st.lists(st.text(max_size=4), min_size=2, max_size=12, unique=True)


@given(key=st.text(), names=NAMES, copies=st.integers(1, 14))
def test_one_more_copy_adds_one_holder(key: str, names: list[str], copies: int) -> None:
    few, more = holders(key, names, copies), holders(key, names, copies + 1)
    assert more[: len(few)] == few
    assert len(more) == len(set(more)) == min(copies + 1, len(names))


@given(key=st.text(), names=NAMES, data=st.data())
def test_the_order_of_the_names_decides_nothing(
    key: str, names: list[str], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(names))
    assert [names[i] for i in holders(key, names, 3)] == [other[i] for i in holders(key, other, 3)]
    ask, again = choose(key, "rank 1", names), choose(key, "rank 1", other)
    assert [names[i] for i in ask] == [other[i] for i in again]


@given(key=st.text(), names=NAMES)
def test_a_name_that_goes_moves_only_what_it_holds(key: str, names: list[str]) -> None:
    before = [names[i] for i in holders(key, names, 2)]
    left = [name for name in names if name not in before[:1]]
    after = [left[i] for i in holders(key, left, 2)]
    assert after[:1] == before[1:2]
    stranger = next((name for name in names if name not in before), None)
    if stranger is not None:
        left = [name for name in names if name != stranger]
        assert [left[i] for i in holders(key, left, 2)] == before


def test_keys_are_spread_evenly_over_the_agents() -> None:
    counts = Counter(agent for key in KEYS for agent in holders(key, AGENTS, 3))
    mean = len(KEYS) * 3 / len(AGENTS)
    assert all(abs(count - mean) < 0.15 * mean for count in counts.values())
    assert len(counts) == len(AGENTS)


def test_many_readers_ask_each_holder_equally_often_and_fall_back_on_all_others() -> None:
    orders = [choose("a hot range", f"rank {n}", AGENTS[:4]) for n in range(4000)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    for place in range(4):
        counts = Counter(order[place] for order in orders)
        assert all(abs(count - 1000) < 120 for count in counts.values())
    seconds = Counter(order[1] for order in orders if order[0] == 2)
    assert all(abs(count - 333) < 80 for count in seconds.values())
    assert set(seconds) == {0, 1, 3}


def test_who_asks_and_what_do_not_run_together() -> None:
    first = [choose("1 x", f"{n}", AGENTS) for n in range(50)]
    second = [choose("x", f"{n} 1", AGENTS) for n in range(50)]
    assert first != second


def test_the_answer_is_the_same_in_every_version() -> None:
    """Readers and agents of one estate may be of different versions."""
    assert holders("a/b@0", AGENTS, 3) == EXPECTED_HOLDERS
    assert choose("a/b@0", "rank 5", AGENTS[:4]) == EXPECTED_ORDER


EXPECTED_HOLDERS = (6, 9, 0)
EXPECTED_ORDER = (2, 1, 0, 3)


@pytest.mark.parametrize(("names", "copies"), [([], 1), (AGENTS, 0)])
def test_nobody_holds_nothing(names: list[str], copies: int) -> None:
    with pytest.raises(CallerError, match="at least 1"):
        holders("x", names, copies)
