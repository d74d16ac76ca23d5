"""Memory that batches lie in, used again as soon as nothing refers to it any more.

Fresh memory costs a page fault for every 4 KiB: measured here, 0.1 to 0.2 ms for one
float32 picture of 224 x 224, as much as normalising it. An array handed out stays its
receiver's for as long as it, or any view or tensor over it, lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.record import AnyArray
from headrace.transform.op import Memory

Octets: TypeAlias = npt.NDArray[np.uint8]
Allocate: TypeAlias = Callable[[int], Octets]
"""Gives so many bytes of uninitialised memory: NumPy's, or pinned by a framework."""

SMALL_BYTES = 1 << 16
"""Arrays below this are not worth keeping."""

STEPS = 8
"""Sizes kept between one power of two and the next: at most an eighth is wasted."""


LARGER = 2
"""A kept block may be this many times as large as what is needed: batches of mixed kinds hold a few
more or fewer of each, and would seldom find a block of exactly their size."""


ALIGNMENT = 64
"""Where memory begins, as a cache line and the widest vectors do; JAX takes an array over without
a copy only from such a place [bytes]."""


def plain(nbytes: int) -> Octets:
    """Return uninitialised memory of this process, aligned."""
    memory = np.empty(nbytes + ALIGNMENT - 1, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + nbytes]


def give_back() -> None:
    """Return this process's free memory to the system; the C library would keep it for later.

    A loader's threads leave much: programs that make a loader for each validation grew by 5 MB
    with each.
    """
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no such call
        ctypes.CDLL(None).malloc_trim(0)


def memory_for_batches(allocate: Allocate, *, keep_bytes: int) -> Memory:
    """Return what gives arrays; only plain memory is kept here to be used again.

    Of another kind only its allocator knows when it may be: a copy to a GPU may still be
    reading pinned memory when the last array over it is gone.
    """
    if allocate is plain:
        return BlockPool(allocate, keep_bytes=keep_bytes)
    return lambda shape, dtype: _array_over(allocate, shape, np.dtype(dtype))


class BlockPool:
    """Gives arrays, and takes their memory back when they are gone. Thread-safe."""

    def __init__(self, allocate: Allocate, *, keep_bytes: int) -> None:
        """Make an empty pool.

        Args:
            allocate: Where memory comes from.
            keep_bytes: Unused memory that is kept; more is given back to the system.
        """
        self._allocate = allocate
        self._keep_bytes = keep_bytes
        self._lock = threading.Lock()
        self._returned: deque[Octets] = deque()
        self._free: dict[int, list[Octets]] = {}
        self._free_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Memory that is kept and unused [bytes]."""
        with self._lock:
            self._collect()
            return self._free_bytes

    def __call__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Return an uninitialised array."""
        return _array_over(self._octets, shape, np.dtype(dtype))

    def _octets(self, nbytes: int) -> Octets:
        if nbytes < SMALL_BYTES:
            return self._allocate(nbytes)
        memory = self._take(_rounded(nbytes))
        octets: Octets = np.asarray(_Lease(memory, self._returned.append))
        return octets[:nbytes]

    def _take(self, size: int) -> Octets:
        with self._lock:
            self._collect()
            fitting = [kept for kept in self._free if size <= kept <= LARGER * size]
            if fitting:
                return self._pop(min(fitting))
        return self._allocate(size)

    def _pop(self, size: int) -> Octets:
        blocks = self._free[size]
        memory = blocks.pop()
        if not blocks:
            del self._free[size]
        self._free_bytes -= size
        return memory

    def _collect(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            if self._free_bytes + memory.nbytes <= self._keep_bytes:
                self._free.setdefault(memory.nbytes, []).append(memory)
                self._free_bytes += memory.nbytes


class _Lease:
    """Owns a block while arrays over it live; NumPy keeps it as their base."""

    def __init__(self, memory: Octets, give_back: Callable[[Octets], None]) -> None:
        self._memory = memory
        self._give_back = give_back
        self.__array_interface__: dict[str, Any] = memory.__array_interface__

    def __del__(self) -> None:
        # May run at any moment of any thread: one append, no lock.
        self._give_back(self._memory)


def _array_over(
    allocate: Allocate, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> AnyArray:
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return allocate(nbytes).view(dtype).reshape(shape)


def _rounded(nbytes: int) -> int:
    """Return the smallest kept size that is not below ``nbytes``."""
    step = max(1 << (nbytes - 1).bit_length() - 1, STEPS) // STEPS
    return -(-nbytes // step) * step
