"""Who holds which bytes of the fast tier's files."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from headrace.agent.arena import Extent

BLOCK = 512
"""Samples begin at multiples of this; small ones waste little [bytes]."""


class Space:
    """Hands out extents of a range of bytes. Not thread-safe.

    The largest hole is used first, so a sample lies in one piece as long as there is a hole for
    it; and in several when there is not, so that free bytes can always be had.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes // BLOCK * BLOCK
        self.free_bytes = self.nbytes
        self._ends: dict[int, int] = {}
        self._begins: dict[int, int] = {}
        self._largest: list[tuple[int, int]] = []
        if self.nbytes:
            self._add(0, self.nbytes)

    def reserve(self, nbytes: int) -> tuple[Extent, ...]:
        """Return extents of ``rounded(nbytes)`` in all.

        Raises:
            MemoryError: fewer bytes are free.
        """
        left = _room_for(nbytes, self.free_bytes)
        extents = []
        while left:
            begin, end = self._take_largest()
            length = min(left, end - begin)
            if begin + length < end:
                self._add(begin + length, end)
            extents.append(Extent(begin, length))
            left -= length
            self.free_bytes -= length
        return tuple(extents)

    def free(self, extents: Sequence[Extent]) -> None:
        """Give extents back."""
        for extent in extents:
            self.free_bytes += extent.length
            begin, end = extent.offset, extent.offset + extent.length
            begin = self._begins.pop(begin, begin)
            end = self._ends.pop(end, end)
            self._ends.pop(begin, None)
            self._begins.pop(end, None)
            self._add(begin, end)

    def has_hole(self, nbytes: int) -> bool:
        """Return whether so many free bytes lie in one piece."""
        while self._largest:
            size, begin = self._largest[0]
            if self._ends.get(begin) == begin - size:
                return nbytes <= -size
            heapq.heappop(self._largest)
        return False

    def _add(self, begin: int, end: int) -> None:
        self._ends[begin] = end
        self._begins[end] = begin
        heapq.heappush(self._largest, (begin - end, begin))
        if len(self._largest) > 2 * len(self._ends) + BLOCK:
            self._largest = [(first - last, first) for first, last in self._ends.items()]
            heapq.heapify(self._largest)

    def _take_largest(self) -> tuple[int, int]:
        while True:
            size, begin = heapq.heappop(self._largest)
            if self._ends.get(begin) == begin - size:
                end = self._ends.pop(begin)
                del self._begins[end]
                return begin, end


class Spaces:
    """Spaces one behind another in one numbering; the first that has a hole is used first.

    What fits in no hole is laid in several, of the space where most is free: so the others' grow.
    What fits in none of them alone is laid over all. Not thread-safe.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._spaces = [Space(size) for size in sizes]
        self._starts = [0, *accumulate(space.nbytes for space in self._spaces)]
        self.pieces = 0
        """Extents that are held."""

    @property
    def nbytes(self) -> int:
        """Bytes of all together [bytes]."""
        return self._starts[-1]

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody holds [bytes]."""
        return sum(space.free_bytes for space in self._spaces)

    def used_bytes(self, number: int) -> int:
        """Return how much of one space is held [bytes]."""
        return self._spaces[number].nbytes - self._spaces[number].free_bytes

    def reserve(self, nbytes: int) -> tuple[Extent, ...]:
        """Return extents of ``rounded(nbytes)`` in all.

        Raises:
            MemoryError: fewer bytes are free.
        """
        left = _room_for(nbytes, self.free_bytes)
        for number, space in enumerate(self._spaces):
            if space.has_hole(left):
                return self._take(number, left)
        loosest = max(range(len(self._spaces)), key=lambda n: self._spaces[n].free_bytes)
        if left <= self._spaces[loosest].free_bytes:
            return self._take(loosest, left)
        extents: list[Extent] = []
        for number, space in enumerate(self._spaces):
            part = min(left, space.free_bytes)
            extents += self._take(number, part)
            left -= part
        return tuple(extents)

    def free(self, extents: Sequence[Extent]) -> None:
        """Give extents back."""
        self.pieces -= len(extents)
        for extent in extents:
            number = bisect_right(self._starts, extent.offset) - 1
            inside = Extent(extent.offset - self._starts[number], extent.length)
            self._spaces[number].free([inside])

    def _take(self, number: int, nbytes: int) -> tuple[Extent, ...]:
        start = self._starts[number]
        taken = self._spaces[number].reserve(nbytes)
        self.pieces += len(taken)
        return tuple(Extent(start + extent.offset, extent.length) for extent in taken)


def rounded(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to whole blocks."""
    return -(-nbytes // BLOCK) * BLOCK


def _room_for(nbytes: int, free_bytes: int) -> int:
    """Return how much ``nbytes`` take of the fast tier, if that is free."""
    wanted = rounded(nbytes)
    if wanted > free_bytes:
        raise MemoryError(f"{wanted} B wanted of the fast tier, {free_bytes} B are free")
    return wanted
