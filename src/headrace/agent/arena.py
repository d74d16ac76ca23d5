"""One block of shared memory for all prepared samples, and who holds which part of it.

The agent hands out extents; workers write into them; the service sends from them. A
reservation may be made of several extents, so memory never fragments: as long as bytes
are free, they can be had.
"""

from __future__ import annotations

import bisect
import contextlib
import mmap
import os
from collections.abc import Sequence

import msgspec

from headrace.core.digest import Buffer

BLOCK = 4096
"""Extents begin and end at multiples of this [bytes]."""

MOST_GIVEN_BACK = 64 << 20
"""Memory that is given back at once: it takes 13 ms of a CPU, in which nothing is answered [bytes].
"""


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """``length`` bytes of the arena from ``offset`` on."""

    offset: int
    length: int


class Arena:
    """Allocates extents of one anonymous file. Not thread-safe.

    Args:
        nbytes: The memory budget; rounded down to blocks. Memory is taken from the
            system when it is first written to, not before, and given back by ``give_back``.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes // BLOCK * BLOCK
        self.free_bytes = self.nbytes
        self.fd = os.memfd_create("headrace-arena", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.nbytes)
        self._map = mmap.mmap(self.fd, self.nbytes)
        self._view = memoryview(self._map)
        self._free: list[tuple[int, int]] = [(0, self.nbytes)]
        self._written = 0
        """All that lies behind this takes no memory of the system [bytes]."""

        self._reached = 0
        """All that lies behind this was free since ``give_back`` was called last [bytes]."""

    def reserve(self, nbytes: int) -> tuple[Extent, ...]:
        """Return extents of at least ``nbytes`` in all: one where possible.

        Raises:
            MemoryError: fewer bytes are free.
        """
        wanted = rounded(nbytes)
        if wanted > self.free_bytes:
            raise MemoryError(f"{wanted} B wanted of the arena, {self.free_bytes} B are free")
        self.free_bytes -= wanted
        for position, (_, length) in enumerate(self._free):
            if length >= wanted:
                return (self._take(position, wanted),)
        return self._gather(wanted)

    def shrink(self, extents: Sequence[Extent], nbytes: int) -> tuple[Extent, ...]:
        """Give back all blocks behind the first ``nbytes``; return what is kept."""
        left, kept = rounded(nbytes), []
        for extent in extents:
            length = min(extent.length, left)
            left -= length
            if length:
                kept.append(Extent(extent.offset, length))
            if length < extent.length:
                self._release(extent.offset + length, extent.length - length)
        return tuple(kept)

    def free(self, extents: Sequence[Extent]) -> None:
        """Give all blocks back."""
        self.shrink(extents, 0)

    def give_back(self) -> None:
        """Give the system memory that was not needed since this was called last.

        What lies lowest is used first, so that is what lies behind all that was used since: of
        that the last ``MOST_GIVEN_BACK``.
        """
        written = max(self._written, self._reached)
        begin = max(self._reached, written - MOST_GIVEN_BACK)
        if begin < written:
            with contextlib.suppress(OSError):  # a kernel that cannot, keeps it
                self._map.madvise(mmap.MADV_REMOVE, begin, written - begin)
        self._written, self._reached = begin, self._held_to()

    def read(self, extents: Sequence[Extent], nbytes: int) -> list[Buffer]:
        """Return views of the first ``nbytes``; valid until the extents are freed."""
        return pieces(self._view, extents, nbytes)

    def close(self) -> None:
        """Unmap and forget the memory; views handed out before must be gone."""
        self._view.release()
        self._map.close()
        os.close(self.fd)

    def _held_to(self) -> int:
        """Return where the last extent ends that somebody holds."""
        offset, length = self._free[-1] if self._free else (self.nbytes, 0)
        return offset if offset + length == self.nbytes else self.nbytes

    def _take(self, position: int, wanted: int) -> Extent:
        offset, length = self._free[position]
        self._reached = max(self._reached, offset + wanted)
        if length == wanted:
            del self._free[position]
        else:
            self._free[position] = (offset + wanted, length - wanted)
        return Extent(offset, wanted)

    def _gather(self, wanted: int) -> tuple[Extent, ...]:
        extents = []
        while wanted:
            extent = self._take(0, min(wanted, self._free[0][1]))
            extents.append(extent)
            wanted -= extent.length
        return tuple(extents)

    def _release(self, offset: int, length: int) -> None:
        self.free_bytes += length
        position = bisect.bisect(self._free, (offset, 0))
        if position < len(self._free) and offset + length == self._free[position][0]:
            length += self._free.pop(position)[1]
        if position and sum(self._free[position - 1]) == offset:
            before, size = self._free[position - 1]
            self._free[position - 1] = (before, size + length)
        else:
            self._free.insert(position, (offset, length))


def rounded(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to whole blocks."""
    return -(-nbytes // BLOCK) * BLOCK


def pieces(memory: memoryview, extents: Sequence[Extent], nbytes: int) -> list[Buffer]:
    """Return views of the first ``nbytes`` that the extents name in ``memory``."""
    views: list[Buffer] = []
    for extent in extents:
        length = min(extent.length, nbytes)
        if length:
            views.append(memory[extent.offset : extent.offset + length])
        nbytes -= length
    return views
