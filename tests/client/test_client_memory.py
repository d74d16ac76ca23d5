"""Memory of batches is used again, and never while anyone can still see it."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.memory import (
    SMALL_BYTES,
    BlockPool,
    _rounded,
    give_back,
    memory_for_batches,
    plain,
)

SHAPE = (8, 100, 100)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool(plain, keep_bytes=1 << 20)


def test_memory_is_used_again_once_the_array_is_gone(pool: BlockPool) -> None:
    first = pool(SHAPE, np.uint8)
    place = address(first)
    assert address(pool(SHAPE, np.uint8)) != place
    del first
    assert place in {address(pool(SHAPE, np.uint8)) for _ in range(3)}


@pytest.mark.parametrize(
    "look", [lambda a: a[3], lambda a: a[:, ::2].T, lambda a: torch.from_numpy(a)[1]]
)
def test_memory_is_not_used_again_while_a_view_or_tensor_lives(
    pool: BlockPool, look: object
) -> None:
    first = pool(SHAPE, np.uint8)
    view = look(first)  # type: ignore[operator]
    view[:] = 7
    del first
    gc.collect()
    others = [pool(SHAPE, np.uint8) for _ in range(4)]
    for other in others:
        other[:] = 0
    assert (np.asarray(view) == 7).all()


def test_unused_memory_is_bounded(pool: BlockPool) -> None:
    arrays = [pool((1 << 18,), np.uint8) for _ in range(16)]
    assert pool.free_bytes == 0
    arrays.clear()
    assert pool.free_bytes == 1 << 20


def test_small_arrays_are_not_kept(pool: BlockPool) -> None:
    small = pool((3,), np.float64)
    assert small.dtype == np.float64
    del small
    assert pool.free_bytes == 0


def test_memory_begins_where_a_cache_line_does(pool: BlockPool) -> None:
    for nbytes in (1, 63, 64, 1000, SMALL_BYTES, 1 << 20):
        memory = plain(nbytes)
        assert (memory.nbytes, memory.ctypes.data % 64) == (nbytes, 0)
        assert pool((nbytes,), np.uint8).ctypes.data % 64 == 0


def test_memory_of_another_allocator_goes_back_to_it_at_once() -> None:
    """Only it knows whether a copy to a GPU still reads what no array is over any more."""
    asked: list[int] = []

    def allocate(nbytes: int) -> np.ndarray:
        asked.append(nbytes)
        return plain(nbytes)

    memory = memory_for_batches(allocate, keep_bytes=1 << 30)
    for _ in range(3):
        assert memory(SHAPE, np.float32).shape == SHAPE
    assert asked == [4 * 8 * 100 * 100] * 3


@given(st.integers(SMALL_BYTES, 1 << 40))
def test_a_kept_size_wastes_at_most_an_eighth(nbytes: int) -> None:
    assert nbytes <= _rounded(nbytes) <= nbytes * 9 / 8
    assert _rounded(_rounded(nbytes)) == _rounded(nbytes)


def test_what_is_free_is_given_back_to_the_system() -> None:
    pieces = [bytes(SMALL_BYTES) for _ in range(1000)]
    above = bytes(SMALL_BYTES)  # the end of the heap stays in use, so that it cannot shrink
    del pieces
    held = resident_bytes()
    give_back()
    assert resident_bytes() < held - 500 * SMALL_BYTES
    assert len(above) == SMALL_BYTES


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
