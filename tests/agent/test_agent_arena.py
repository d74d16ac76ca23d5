from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.agent.arena import BLOCK, Arena, Extent, pieces, rounded
from headrace.agent.worker import copy_into


def test_memory_never_fragments_as_long_as_bytes_are_free() -> None:
    arena = Arena(10 * BLOCK)
    slots = [arena.reserve(BLOCK) for _ in range(10)]
    for slot in slots[::2]:
        arena.free(slot)
    scattered = arena.reserve(5 * BLOCK)
    assert len(scattered) == 5
    assert arena.free_bytes == 0
    arena.close()


def test_a_full_arena_says_how_much_is_free() -> None:
    arena = Arena(2 * BLOCK)
    arena.reserve(1)
    with pytest.raises(MemoryError, match=f"{BLOCK} B are free"):
        arena.reserve(2 * BLOCK)
    arena.close()


def test_what_is_written_through_extents_is_read_back_in_order() -> None:
    arena = Arena(6 * BLOCK)
    kept = [arena.reserve(BLOCK) for _ in range(6)]
    for slot in kept[::2]:
        arena.free(slot)
    extents = arena.reserve(2 * BLOCK + 17)
    data = bytes(range(256)) * 33
    copy_into(pieces(arena._view, extents, len(data)), [data[:1000], data[1000:]])
    assert b"".join(arena.read(extents, len(data))) == data


SIZES = st.lists(st.tuples(st.booleans(), st.integers(0, 9 * BLOCK)), max_size=80)


@seed(20260102)
@settings(deadline=None)
@given(SIZES)
def test_extents_never_overlap_and_all_bytes_come_back(steps: list[tuple[bool, int]]) -> None:
    arena = Arena(32 * BLOCK)
    held: list[tuple[Extent, ...]] = []
    for take, number in steps:
        if take and rounded(number) <= arena.free_bytes:
            held.append(arena.reserve(number))
        elif held:
            slot = held.pop(number % len(held))
            kept = arena.shrink(slot, number)
            assert sum(extent.length for extent in kept) <= rounded(number)
            held.append(kept)
        blocks = [
            block
            for slot in held
            for extent in slot
            for block in range(extent.offset, extent.offset + extent.length, BLOCK)
        ]
        assert len(set(blocks)) == len(blocks)
        assert len(blocks) * BLOCK + arena.free_bytes == arena.nbytes
    for slot in held:
        arena.free(slot)
    assert arena.reserve(arena.nbytes) == (Extent(0, arena.nbytes),)
    arena.close()
