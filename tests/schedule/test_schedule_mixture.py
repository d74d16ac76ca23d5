"""A mixture gives every source its due, everywhere, and can be asked both ways."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.schedule.local import LocalShuffle
from headrace.schedule.mixture import MAX_TOTAL, Mixture, integer_weights

UNHURRIED = settings(deadline=None, max_examples=40)  # the machine may be shared

WEIGHTS = st.lists(st.integers(1, 1000), min_size=1, max_size=9)
LARGE_WEIGHTS = st.lists(st.integers(1, MAX_TOTAL // 9), min_size=2, max_size=9)


@UNHURRIED
@given(weights=WEIGHTS, length=st.integers(1, 500))
def test_every_stretch_from_the_beginning_holds_the_due_shares(
    weights: list[int], length: int
) -> None:
    mixture = Mixture(weights)
    sources, ordinals = mixture.sources_at(np.arange(length, dtype=np.uint64))
    total = sum(weights)
    for source, weight in enumerate(weights):
        counts = np.cumsum(sources == source)
        due = np.arange(1, length + 1) * weight / total
        assert np.all(np.abs(counts - due) <= mixture.depth / 2 + 1e-9)
        assert ordinals[sources == source].tolist() == list(range(counts[-1]))


@UNHURRIED
@given(weights=WEIGHTS | LARGE_WEIGHTS, start=st.integers(0, 2**55))
def test_positions_far_out_are_exact_both_ways(weights: list[int], start: int) -> None:
    mixture = Mixture(weights)
    positions = np.arange(start, start + 20, dtype=np.uint64)
    sources, ordinals = mixture.sources_at(positions)
    for position, source, ordinal in zip(positions, sources, ordinals, strict=True):
        assert mixture.count(int(source), int(position)) == int(ordinal)
        assert mixture.count(int(source), int(position) + 1) == int(ordinal) + 1
        back = mixture.positions_of(int(source), np.array([ordinal], dtype=np.uint64))
        assert int(back[0]) == int(position)


@UNHURRIED
@given(weights=WEIGHTS)
def test_as_many_positions_as_the_weights_sum_to_hold_each_source_exactly_its_weight(
    weights: list[int],
) -> None:
    sources, _ = Mixture(weights).sources_at(np.arange(sum(weights), dtype=np.uint64))
    assert np.bincount(sources, minlength=len(weights)).tolist() == weights


def test_plain_decimals_and_counts_become_exact_integers() -> None:
    assert integer_weights([0.1, 0.2, 0.7]) == [1, 2, 7]
    assert integer_weights([3e12, 1e12]) == [3, 1]
    assert integer_weights([1e12 + 1, 1e12]) == [10**12 + 1, 10**12]
    assert integer_weights([5.0]) == [1]


@UNHURRIED
@given(weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_any_weights_keep_their_shares(weights: list[float]) -> None:
    result = integer_weights(weights)
    assert sum(result) <= MAX_TOTAL
    exact = [Fraction(weight) for weight in weights]
    for weight, integer in zip(exact, result, strict=True):
        assert abs(Fraction(integer, sum(result)) - weight / sum(exact)) < Fraction(1, 10**11)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_share_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="source 1"):
        integer_weights([1.0, weight])


@UNHURRIED
@given(length=st.integers(1, 500), run=st.integers(1, 70), epoch=st.integers(0, 2**30))
def test_a_local_shuffle_moves_nothing_out_of_its_run(length: int, run: int, epoch: int) -> None:
    shuffle = LocalShuffle(length, b"key", run=run)
    positions = np.arange(length, dtype=np.uint64)
    epochs = np.full_like(positions, epoch)
    moved = shuffle.apply("forward", positions, epochs)
    assert np.array_equal(np.sort(moved), positions)
    assert np.array_equal(moved // np.uint64(run), positions // np.uint64(run))
    assert np.array_equal(shuffle.apply("inverse", moved, epochs), positions)
