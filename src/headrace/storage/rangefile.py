"""A range of a stored file that decoders can read as if it were a file of its own."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER_BYTES = 128 * 1024
"""Read ahead of small reads: a decoder asks for a few kilobytes at a time [bytes]."""


class ReadsRanges(Protocol):
    """The part of ``Storage`` that a range needs."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of a file from ``offset`` on."""
        ...


class RangeFile(io.BufferedReader):
    """A buffered, seekable, read-only view of ``length`` bytes of a file from ``offset`` on.

    Only what is asked for (rounded up to the buffer) is read from storage. Errors of the
    storage come through unchanged. One object may be used by one thread at a time.
    """

    def __init__(
        self,
        storage: ReadsRanges,
        path: str,
        offset: int,
        length: int,
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        super().__init__(_RawRange(storage, path, offset, length), max(1, buffer_bytes))


class _RawRange(io.RawIOBase):
    """Turns reads at a position into ranged reads of the storage; keeps nothing."""

    def __init__(self, storage: ReadsRanges, path: str, offset: int, length: int) -> None:
        self._storage = storage
        self._path = path
        self._offset = offset
        self._length = length
        self._position = 0

    @property
    def name(self) -> str:
        return self._path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the start of {self._path}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._length - self._position))
        if count == 0:
            return 0
        view[:count] = self._storage.read(self._path, self._offset + self._position, count)
        self._position += count
        return count
