"""The keyed permutation is a bijection of any range, and looks like chance."""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.core.mixing import Words
from headrace.schedule.permutation import MAX_SIZE, Permutation

UNHURRIED = settings(deadline=None, max_examples=40)  # the machine may be shared

KEYS = st.binary(max_size=8)


def words(*values: int) -> Words:
    return np.array(values, dtype=np.uint64)


def members(count: int) -> Words:
    return np.arange(count, dtype=np.uint64)


@UNHURRIED
@given(size=st.integers(1, 3000), key=KEYS, tweak=st.integers(0, 2**64 - 1))
def test_it_visits_every_value_exactly_once(size: int, key: bytes, tweak: int) -> None:
    result = Permutation(size, key).forward(members(size), words(tweak))
    assert np.array_equal(np.sort(result), members(size))


@UNHURRIED
@given(
    size=st.integers(1, MAX_SIZE),
    key=KEYS,
    tweaks=st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3),
    data=st.data(),
)
def test_inverse_undoes_forward_and_forward_inverse_up_to_the_largest_range(
    size: int, key: bytes, tweaks: list[int], data: st.DataObject
) -> None:
    values = words(*data.draw(st.lists(st.integers(0, size - 1), min_size=3, max_size=3)))
    permutation = Permutation(size, key)
    there = permutation.forward(values, words(*tweaks))
    assert there.max() < size
    assert np.array_equal(permutation.inverse(there, words(*tweaks)), values)
    back = permutation.inverse(values, words(*tweaks))
    assert np.array_equal(permutation.forward(back, words(*tweaks)), values)


@pytest.mark.parametrize("size", [1, 2, 3, 10**4, 10**4 + 7, 10**13, 10**13 + 1, MAX_SIZE])
def test_both_ends_of_the_range_survive_a_round_trip(size: int) -> None:
    ends = np.unique(np.array([0, size // 2, size - 1], dtype=np.uint64))
    permutation = Permutation(size, b"ends")
    assert np.array_equal(permutation.inverse(permutation.forward(ends, words(1)), words(1)), ends)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_a_small_range_reaches_all_its_permutations_equally_often(size: int) -> None:
    per_outcome, outcomes = 100, factorial(size)
    tweaks = members(per_outcome * outcomes)
    permutation = Permutation(size, b"fair")
    code = np.zeros(tweaks.size, dtype=np.uint64)
    for value in range(size):
        code = code * np.uint64(size) + permutation.forward(np.full_like(tweaks, value), tweaks)
    _, counts = np.unique(code, return_counts=True)
    assert counts.size == outcomes
    assert chi_square_z(counts, per_outcome) < 4


@pytest.mark.parametrize("size", [7, 31, 100, 1000, 4096, 10_000])
def test_two_values_land_at_any_distance_equally_often(size: int) -> None:
    tweaks = members(200_000)
    permutation = Permutation(size, b"pairs")
    for one, other in [(0, 1), (0, size // 2), (size - 2, size - 1)]:
        first = permutation.forward(np.full_like(tweaks, one), tweaks).astype(np.int64)
        second = permutation.forward(np.full_like(tweaks, other), tweaks).astype(np.int64)
        counts = np.bincount((first - second) % size, minlength=size)
        assert counts[0] == 0
        assert chi_square_z(counts[1:], tweaks.size / (size - 1)) < 4


def test_neighbours_do_not_stay_neighbours_in_a_large_range() -> None:
    size = 10**12
    result = Permutation(size, b"far").forward(members(100_000), words(0)).astype(np.float64)
    steps = np.diff(result) / size
    assert abs(np.corrcoef(result[:-1], result[1:])[0, 1]) < 0.015
    assert abs(np.mean(np.abs(steps)) - 1 / 3) < 0.005


def test_another_key_or_tweak_is_another_permutation() -> None:
    values = members(1000)
    base = Permutation(1000, b"a").forward(values, words(0))
    other_key = Permutation(1000, b"b").forward(values, words(0))
    other_tweak = Permutation(1000, b"a").forward(values, words(1))
    for other in (other_key, other_tweak):
        assert np.count_nonzero(base == other) < 12


def test_one_tweak_for_all_is_the_same_as_one_for_each() -> None:
    values = members(777)
    permutation = Permutation(777, b"k")
    each = permutation.forward(values, np.full_like(values, 5))
    assert np.array_equal(permutation.forward(values, words(5)), each)


def test_the_outcome_is_pinned() -> None:
    result = Permutation(10**12, b"pinned").forward(members(4), words(7))
    assert result.tolist() == [418715911879, 814704280892, 532134324590, 91026789364]
    assert Permutation(10, b"pinned").forward(members(10), words(7)).tolist() == [
        4,
        0,
        2,
        6,
        5,
        1,
        7,
        9,
        8,
        3,
    ]


def test_an_impossible_size_is_refused_with_what_is_possible() -> None:
    for size in (0, -1, MAX_SIZE + 1):
        with pytest.raises(ConfigError, match=str(MAX_SIZE)):
            Permutation(size, b"")


def chi_square_z(counts: np.ndarray, expected: float) -> float:
    freedom = counts.size - 1
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    return (chi_square - freedom) / sqrt(2 * freedom)
