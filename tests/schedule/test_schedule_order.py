"""Every order of a pass is a bijection, and block order keeps neighbours together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.core.job import ScheduleSpec
from headrace.core.mixing import Words
from headrace.schedule.order import BlockShuffle, PassOrder, Shuffle, order_of

UNHURRIED = settings(deadline=None, max_examples=40)  # the machine may be shared


def specs() -> st.SearchStrategy[ScheduleSpec]:
    return st.builds(
        ScheduleSpec,
        seed=st.just(0),
        batch_size=st.just(1),
        order=st.sampled_from(["shuffle", "block", "sequential"]),
        block=st.integers(1, 40),
        mix=st.integers(1, 9),
    )


def one_pass(order: PassOrder, samples: int, number: int) -> Words:
    positions = np.arange(samples, dtype=np.uint64)
    return order.samples_at(positions, np.full_like(positions, number))


@UNHURRIED
@given(spec=specs(), samples=st.integers(1, 600), number=st.integers(0, 2**40))
def test_a_pass_visits_every_sample_once_and_knows_where(
    spec: ScheduleSpec, samples: int, number: int
) -> None:
    order = order_of(spec, samples, b"key")
    visited = one_pass(order, samples, number)
    assert np.array_equal(np.sort(visited), np.arange(samples))
    back = order.positions_of(visited, np.full_like(visited, number))
    assert np.array_equal(back, np.arange(samples))


@UNHURRIED
@given(spec=specs(), samples=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_positions_of_several_passes_in_one_array_are_as_asked_one_by_one(
    spec: ScheduleSpec, samples: int, seed: int
) -> None:
    order = order_of(spec, samples, b"key")
    chance = np.random.default_rng(seed)
    positions = chance.integers(0, samples, 50, dtype=np.uint64)
    passes = chance.integers(0, 3, 50, dtype=np.uint64)
    together = order.samples_at(positions, passes)
    alone = np.stack([one_pass(order, samples, number) for number in range(3)])
    assert np.array_equal(together, alone[passes, positions])
    assert np.array_equal(order.positions_of(together, passes), positions)


@UNHURRIED
@given(samples=st.integers(1, 2000), block=st.integers(1, 50), mix=st.integers(1, 6))
def test_block_order_reads_whole_blocks_and_holds_few_at_a_time(
    samples: int, block: int, mix: int
) -> None:
    order = BlockShuffle(samples, b"key", block=block, mix=mix)
    blocks = one_pass(order, samples, 3) // np.uint64(block)
    first = {int(number): int(np.flatnonzero(blocks == number)[0]) for number in np.unique(blocks)}
    for number, begin in first.items():
        last = int(np.flatnonzero(blocks == number)[-1])
        assert last - begin < mix * block


def test_block_order_shuffles_the_blocks_and_the_samples_of_a_group() -> None:
    order = BlockShuffle(100_000, b"key", block=100, mix=8)
    visited = one_pass(order, 100_000, 0)
    group = np.sort(visited[:800])
    blocks = np.unique(group // np.uint64(100))
    assert blocks.size == 8
    assert np.count_nonzero(np.diff(blocks.astype(np.int64)) == 1) < 3
    assert np.count_nonzero(np.diff(visited.astype(np.int64)) == 1) < 1000


def test_the_short_last_block_moves_from_pass_to_pass() -> None:
    order = BlockShuffle(1001, b"key", block=10, mix=1)
    places = {int(np.flatnonzero(one_pass(order, 1001, number) == 1000)[0]) for number in range(50)}
    assert len(places) > 25
    assert min(places) < 250
    assert max(places) > 750


def test_each_pass_is_another_order() -> None:
    order = Shuffle(1000, b"key")
    assert np.count_nonzero(one_pass(order, 1000, 0) == one_pass(order, 1000, 1)) < 12


def test_nothing_is_asked_and_nothing_is_answered() -> None:
    none = np.empty(0, dtype=np.uint64)
    for order in (Shuffle(10, b"k"), BlockShuffle(10, b"k", block=3, mix=2)):
        assert order.samples_at(none, none).size == 0
        assert order.positions_of(none, none).size == 0


def test_an_unknown_order_names_the_known_ones() -> None:
    spec = ScheduleSpec(seed=0, batch_size=1, order="suffle")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="shuffle, block or sequential"):
        order_of(spec, 10, b"")
