"""Rendezvous hashing: even, stable, and the same for every order of names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.placement import owners, preference

ROSTERS = st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=8, unique=True)
UNHURRIED = settings(deadline=None, max_examples=50)
SAMPLES = np.arange(2000, dtype=np.int64) * 1_000_003


@UNHURRIED
@given(roster=ROSTERS, data=st.data())
def test_when_an_agent_leaves_only_its_own_samples_move(
    roster: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(roster))
    before = np.array(roster)[owners(SAMPLES, roster)]
    rest = [name for name in roster if name != gone]
    after = np.array(rest)[owners(SAMPLES, rest)]
    assert np.array_equal(before[before != gone], after[before != gone])


@UNHURRIED
@given(roster=ROSTERS, data=st.data())
def test_the_order_of_the_names_does_not_matter(roster: list[str], data: st.DataObject) -> None:
    other = data.draw(st.permutations(roster))
    assert [roster[i] for i in owners(SAMPLES[:50], roster)] == [
        other[i] for i in owners(SAMPLES[:50], other)
    ]


@UNHURRIED
@given(roster=ROSTERS, sample=st.integers(0, 2**62))
def test_preference_begins_with_the_owner_and_goes_on_with_who_would_own_it_next(
    roster: list[str], sample: int
) -> None:
    order = preference(sample, roster)
    assert sorted(order) == list(range(len(roster)))
    left = list(roster)
    for index in order:
        assert left[owners(np.array([sample]), left)[0]] == roster[index]
        left.remove(roster[index])


@pytest.mark.parametrize("agents", [2, 3, 16, 100])
def test_neighbouring_samples_are_shared_evenly(agents: int) -> None:
    samples = np.arange(100_000, dtype=np.int64)
    roster = [f"storage-{number:03}" for number in range(agents)]
    counts = np.bincount(owners(samples, roster), minlength=agents)
    even = samples.size / agents
    assert np.all(np.abs(counts - even) < 5 * np.sqrt(even))


def test_the_samples_of_one_who_left_go_to_all_others_evenly() -> None:
    samples = np.arange(100_000, dtype=np.int64)
    roster = ["a", "b", "c", "d", "e"]
    orphans = samples[owners(samples, roster) == 0]
    counts = np.bincount(owners(orphans, roster[1:]), minlength=4)
    assert np.all(np.abs(counts - orphans.size / 4) < 5 * np.sqrt(orphans.size / 4))


def test_owners_are_pinned() -> None:
    owner = owners(np.arange(12, dtype=np.int64), ("a", "b", "c"))
    assert owner.tolist() == [0, 2, 0, 1, 1, 0, 2, 1, 0, 2, 0, 2]


@pytest.mark.parametrize("roster", [[], ["a", "a"]])
def test_a_roster_that_names_nobody_or_somebody_twice_is_refused(roster: list[str]) -> None:
    for ask in (lambda: owners(SAMPLES, roster), lambda: preference(1, roster)):
        with pytest.raises(ConfigError, match="--name"):
            ask()
