"""Accumulators against a plain computation over the same random values."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.columns import Columns
from headrace.analysis.distinct import MOST_HASHES, DistinctNames
from headrace.analysis.named import NamedSums
from headrace.analysis.slots import MOST_SLOTS, SlotSums
from headrace.analysis.spreads import MOST_EXACT, SHARES, SpreadSketch
from headrace.analysis.stretches import Stretches, Union, united
from headrace.trace.events import Event, batch_of

Piece = tuple[int, int, int]


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(st.lists(st.integers(0, 10**15), max_size=30), min_size=1, max_size=4).filter(
        any
    ),
    seed=st.integers(0, 9),
)
def test_a_spread_of_few_values_is_exact_however_they_come(
    parts: list[list[int]], seed: int
) -> None:
    times = [np.random.default_rng(seed).integers(1, 4, len(part)) for part in parts]
    whole = SpreadSketch()
    for part, often in zip(parts, times, strict=True):
        one = SpreadSketch()
        one.add(np.array(part, np.int64), often)
        whole.merge(one)
    values = np.repeat(np.concatenate(parts), np.concatenate(times)).astype(float)
    found = whole.result(curve=True)
    assert found is not None
    assert found.count == values.size
    assert found.total == pytest.approx(values.sum())
    assert found.most == values.max()
    wanted = np.quantile(values, (0.5, 0.9, 0.99))
    assert (found.p50, found.p90, found.p99) == pytest.approx(tuple(wanted))
    assert found.curve == pytest.approx(tuple(np.quantile(values, SHARES)))


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_spread_of_many_values_errs_by_half_a_percent_at_most(is_merged: bool) -> None:
    values = np.random.default_rng(1).lognormal(12, 2, 3 * MOST_EXACT).astype(np.int64)
    sketch = SpreadSketch()
    for part in np.split(values, 3):
        one = SpreadSketch()
        one.add(part)
        if is_merged:
            sketch.merge(one)
        else:
            sketch.add(part)
    found = sketch.result(curve=True)
    assert found is not None
    assert (found.count, found.most) == (values.size, values.max())
    assert found.total == pytest.approx(values.sum())
    wanted = np.quantile(values, SHARES)
    assert np.abs(np.array(found.curve) / wanted - 1).max() <= 0.0051


def test_a_spread_that_went_over_to_bins_takes_in_an_exact_one_and_the_other_way_round() -> None:
    many = np.random.default_rng(2).lognormal(12, 3, 3 * MOST_EXACT).astype(np.int64)
    sketches = []
    for values in (many, np.arange(10)):
        sketches.append(SpreadSketch())
        sketches[-1].add(values)
    one, other = (SpreadSketch(), SpreadSketch())
    for target, order in ((one, sketches), (other, sketches[::-1])):
        for sketch in order:
            target.merge(sketch)
    assert one.result() == other.result()


def test_nothing_has_no_spread() -> None:
    sketch = SpreadSketch()
    sketch.add(np.empty(0))
    assert sketch.result() is None


PIECES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 15)), max_size=40)


POINTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 80)), max_size=20)


def moments(pieces: list[Piece], gap: int = 0) -> set[tuple[int, int]]:
    return {(key, at) for key, begin, length in pieces for at in range(begin, begin + length + gap)}


def as_stretches(pieces: list[Piece]) -> Stretches:
    rows = np.array(pieces, np.int64).reshape(-1, 3)
    return Stretches(rows[:, 0], rows[:, 1], rows[:, 1] + rows[:, 2])


@settings(max_examples=100, deadline=None)
@given(pieces=PIECES)
def test_a_union_covers_what_its_parts_cover_and_nothing_else(pieces: list[Piece]) -> None:
    whole = united(as_stretches(pieces))
    rows = list(zip(*(column.tolist() for column in whole), strict=True))
    assert {(key, at) for key, begin, end in rows for at in range(begin, end)} == moments(pieces)
    assert rows == sorted(rows)
    assert all(a[2] < b[1] for a, b in itertools.pairwise(rows) if a[0] == b[0])


@settings(max_examples=50, deadline=None)
@given(pieces=PIECES, parts=st.integers(1, 5))
def test_a_union_does_not_depend_on_the_order_of_its_batches(
    pieces: list[Piece], parts: int
) -> None:
    one, other = Union(), Union()
    for place in range(parts):
        one.add(*as_stretches(pieces[place::parts]))
        other.add(*as_stretches(pieces[parts - place - 1 :: parts]))
        one.whole()
    assert all(np.array_equal(a, b) for a, b in zip(one.whole(), other.whole(), strict=True))


def test_a_union_that_is_too_large_closes_its_shortest_gaps_and_says_by_how_much() -> None:
    begins = np.cumsum(np.random.default_rng(3).integers(20, 1_000, 5_000))
    exact, bounded = Union(), Union(most=1_000)
    for union in (exact, bounded):
        union.add(np.arange(5_000) // 2_500, begins, begins + 10)
    assert bounded.whole().keys.size <= 1_000
    added = bounded.whole().seconds() - exact.whole().seconds()
    assert bounded.closed_s == pytest.approx(added) and added > 0
    assert set(bounded.whole().keys.tolist()) == {0, 1}


def test_names_that_do_not_fit_are_given_up_the_smallest_first() -> None:
    sums = NamedSums(("name",), {"reads": "sum"}, most=10)
    for _ in range(30):
        sums.add({"name": ["hot", "warm"], "reads": [10, 5]})
        sums.add({"name": [f"cold{number}" for number in range(9)], "reads": [1] * 9})
    for number in range(100):
        sums.add({"name": [f"once{number}"], "reads": [1]})
    table = sums.table()
    assert table is not None and table.num_rows <= 20
    assert sums.given_up > 0
    found = dict(zip(table["name"].to_pylist(), table["reads"].to_pylist(), strict=True))
    assert (found["hot"], found["warm"]) == (300, 150)


def test_names_are_counted_exactly_while_few_and_nearly_when_many() -> None:
    names = DistinctNames()
    for first in (0, 500, 800):
        events = [
            Event(kind="request", begin_ns=0, file=f"f{number}")
            for number in range(first, first + 500)
        ]
        names.add(Columns(batch_of(events)), "file")
    assert len(names) == 1_300
    rng = np.random.default_rng(4)
    names._hashes = np.unique(rng.integers(0, 2**64 - 1, 500_000, np.uint64))[:MOST_HASHES]
    assert len(names) == pytest.approx(500_000, rel=0.02)


@settings(max_examples=50, deadline=None)
@given(
    moments=st.lists(st.integers(-(10**12), 10**14), min_size=1, max_size=60),
    parts=st.integers(1, 4),
)
def test_slots_of_time_grow_with_the_trace_and_lose_nothing(moments: list[int], parts: int) -> None:
    sums = SlotSums(("name",), {"reads": "sum"})
    for place in range(parts):
        part = np.array(moments[place::parts], np.int64)
        if part.size:
            sums.cover(int(part.min()), int(part.max()))
            names = np.where(part % 2 == 0, "even", "odd")
            ones = np.ones(part.size, np.int64)
            sums.add({"name": names, "slot": sums.slots_of(part), "reads": ones})
    table = sums.table()
    assert table is not None
    wanted = Counter(("odd" if one % 2 else "even", one // sums.width_ns) for one in moments)
    keys = zip(table["name"].to_pylist(), table["slot"].to_pylist(), strict=True)
    assert dict(zip(keys, table["reads"].to_pylist(), strict=True)) == wanted
    slots = table["slot"].to_pylist()
    assert max(slots) - min(slots) < MOST_SLOTS


@settings(max_examples=60, deadline=None)
@given(
    pieces=PIECES, points=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 80)), max_size=20)
)
def test_moments_within_a_stretch_are_counted_without_its_ends(
    pieces: list[Piece], points: list[tuple[int, int]]
) -> None:
    whole = united(as_stretches([piece for piece in pieces if piece[2]]))
    rows = np.array(points, np.int64).reshape(-1, 2)
    found = whole.moments_within(rows[:, 0], rows[:, 1]).tolist()
    wanted = [
        sum(key == one and begin < at < end for one, at in points)
        for key, begin, end in zip(*(column.tolist() for column in whole), strict=True)
    ]
    assert found == wanted


@settings(max_examples=60, deadline=None)
@given(pieces=PIECES, cut=st.integers(0, 80))
def test_a_union_that_is_split_is_the_same_in_two_parts(pieces: list[Piece], cut: int) -> None:
    whole = united(as_stretches(pieces))
    keys = np.unique(whole.keys)
    parts = whole.split(keys, np.full(keys.size, cut))
    assert sum(part.seconds() for part in parts) == pytest.approx(whole.seconds())
    assert all(end <= cut for end in parts[0].ends) and all(one >= cut for one in parts[1].begins)
