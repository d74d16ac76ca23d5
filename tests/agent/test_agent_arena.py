from __future__ import annotations

import os

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.agent.arena import BLOCK, MOST_GIVEN_BACK, Arena, Extent, pieces, rounded
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


def memory_of(arena: Arena) -> int:
    """Return what an arena takes of the system's memory [bytes]."""
    return os.fstat(arena.fd).st_blocks * 512


def filled(arena: Arena, nbytes: int) -> tuple[Extent, ...]:
    extents = arena.reserve(nbytes)
    copy_into(pieces(arena._view, extents, nbytes), [b"x" * nbytes])
    return extents


def test_memory_that_was_needed_once_is_given_back_when_it_was_not_needed_again() -> None:
    arena = Arena(100 * BLOCK)
    kept, large = filled(arena, 2 * BLOCK), filled(arena, 80 * BLOCK)
    arena.free(large)
    arena.give_back()
    assert memory_of(arena) == 82 * BLOCK  # it was needed a moment ago
    arena.free(filled(arena, 3 * BLOCK))
    arena.give_back()
    assert memory_of(arena) == 5 * BLOCK
    arena.give_back()
    assert memory_of(arena) == 2 * BLOCK
    assert b"".join(arena.read(kept, 2 * BLOCK)) == b"x" * 2 * BLOCK
    refilled = filled(arena, 90 * BLOCK)
    assert b"".join(arena.read(refilled, 90 * BLOCK)) == b"x" * 90 * BLOCK
    arena.close()


def test_a_full_arena_gives_nothing_back() -> None:
    arena = Arena(4 * BLOCK)
    first, last = filled(arena, BLOCK), filled(arena, 3 * BLOCK)
    for _ in range(3):
        arena.give_back()
    assert memory_of(arena) == 4 * BLOCK
    arena.free(first)
    for _ in range(3):
        arena.give_back()
    assert b"".join(arena.read(last, 3 * BLOCK)) == b"x" * 3 * BLOCK
    arena.close()


def test_much_memory_is_given_back_in_parts() -> None:
    arena = Arena(MOST_GIVEN_BACK + 2 * BLOCK)
    last = arena.reserve(arena.nbytes)
    arena._view[-1] = 1
    arena._view[BLOCK] = 1
    arena.free(last)
    left = []
    for _ in range(3):
        arena.give_back()
        left.append(memory_of(arena))
    assert left == [2 * BLOCK, BLOCK, 0]
    arena.close()
