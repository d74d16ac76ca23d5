"""Extents of the fast tier: none overlaps another, none is lost."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.arena import Extent
from headrace.agent.fasttier.space import BLOCK, Space, Spaces, rounded
from headrace.agent.fasttier.tier import LOOSE_SHARE, MOST_PIECES

TEXTS, PHOTOS = (1500, 3000, 6000, 8000), (15_000, 25_000, 40_000, 60_000)
Held = list[tuple[Extent, ...]]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 9 * BLOCK), st.integers(0, 99)), max_size=80)
)
def test_extents_never_overlap_and_all_bytes_come_back(
    steps: list[tuple[bool, int, int]],
) -> None:
    space, held = Space(32 * BLOCK), []
    for gives_back, nbytes, which in steps:
        if gives_back and held:
            space.free(held.pop(which % len(held)))
        elif rounded(nbytes) <= space.free_bytes:
            held.append(space.reserve(nbytes))
            assert sum(extent.length for extent in held[-1]) == rounded(nbytes)
        blocks = [b for extents in held for extent in extents for b in blocks_of(extent)]
        assert len(blocks) == len(set(blocks))
        assert space.free_bytes == space.nbytes - BLOCK * len(blocks)
    for extents in held:
        space.free(extents)
    assert space.reserve(space.nbytes) == (Extent(0, space.nbytes),)


def blocks_of(extent: Extent) -> range:
    assert 0 <= extent.offset <= 32 * BLOCK - extent.length
    return range(extent.offset // BLOCK, (extent.offset + extent.length) // BLOCK)


def test_a_sample_lies_in_several_pieces_where_no_hole_is_large_enough() -> None:
    space = Space(8 * BLOCK)
    parts = [space.reserve(BLOCK) for _ in range(8)]
    for extents in parts[::2]:
        space.free(extents)
    assert len(space.reserve(3 * BLOCK)) == 3


def test_more_than_is_free_cannot_be_had() -> None:
    space = Space(2 * BLOCK)
    space.reserve(BLOCK + 1)
    with pytest.raises(MemoryError, match="0 B are free"):
        space.reserve(1)


def test_reserving_in_a_space_of_many_holes_takes_microseconds() -> None:
    space = Space(40_000 * BLOCK)
    held: Held = [space.reserve(2 * BLOCK) for _ in range(20_000)]
    for extents in held[::3]:
        space.free(extents)
    begin = time.thread_time()
    for _ in range(10_000):
        space.free(space.reserve(3 * BLOCK))
    assert (time.thread_time() - begin) / 10_000 < 100e-6


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9 * BLOCK)), max_size=80))
def test_several_spaces_lend_all_their_bytes_and_none_twice(
    calls: list[tuple[bool, int]],
) -> None:
    spaces = Spaces([6 * BLOCK, 10 * BLOCK])
    held: Held = []
    for gives_back, nbytes in calls:
        if gives_back and held:
            spaces.free(held.pop(nbytes % len(held)))
            continue
        if rounded(nbytes) > spaces.free_bytes:
            with pytest.raises(MemoryError):
                spaces.reserve(nbytes)
            continue
        alone = [n for n in (0, 1) if rounded(nbytes) <= (6, 10)[n] * BLOCK - spaces.used_bytes(n)]
        held.append(spaces.reserve(nbytes))
        assert sum(extent.length for extent in held[-1]) == rounded(nbytes)
        if alone:
            (space,) = {int(extent.offset >= 6 * BLOCK) for extent in held[-1]}
            assert space in alone
    extents = [extent for lent in held for extent in lent]
    lent = [n for extent in extents for n in range(extent.offset, extent.offset + extent.length)]
    assert len(lent) == len(set(lent)) == spaces.nbytes - spaces.free_bytes
    for extent in extents:
        assert extent.offset >= 6 * BLOCK or extent.offset + extent.length <= 6 * BLOCK


def test_where_a_sixteenth_is_free_samples_of_all_sizes_lie_in_few_pieces() -> None:
    draw = random.Random(1)
    spaces = Spaces([1 << 20, 3 << 20])
    most, used, held = spaces.nbytes - spaces.nbytes // LOOSE_SHARE, 0, Held()
    for _ in range(8000):
        nbytes = rounded(int(draw.choice(TEXTS * 3 + PHOTOS) * draw.uniform(0.7, 1.3)))
        while used + nbytes > most:
            gone = held.pop(draw.randrange(len(held)))
            spaces.free(gone)
            used -= sum(extent.length for extent in gone)
        held.append(spaces.reserve(nbytes))
        used += nbytes
    assert spaces.pieces == sum(map(len, held)) < MOST_PIECES * len(held)
