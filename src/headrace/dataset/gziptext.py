"""The text of a gzip file by range, by means of restart points.

A restart point holds the 32 KiB of text before it, from which decompression can go on in
the middle of the stream. Files of several members are one text.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, TypeVar

import indexed_gzip

from headrace.core.errors import CorruptDataError, HeadraceError

RESTART_BYTES = 1024 * 1024
"""Text between two restart points: a read decompresses half of it in the mean [bytes]."""

T = TypeVar("T")

_ERRORS = (indexed_gzip.ZranError, OSError, EOFError, ValueError)


class GzipText:
    """The text of one gzip file. Not thread-safe."""

    def __init__(self, stream: BinaryIO, restart_points: bytes | None = None) -> None:
        """Open a file; without restart points, reads find them on their way, slowly.

        Raises:
            CorruptDataError: the restart points are not of this file.
        """
        self._source = _Source(stream)
        self._file = indexed_gzip.IndexedGzipFile(
            fileobj=self._source, spacing=RESTART_BYTES, buffer_size=64 * 1024
        )
        if restart_points is not None:
            points = io.BytesIO(restart_points)
            self._guarded("use its restart points", lambda: self._file.import_index(fileobj=points))

    def find_restart_points(self) -> bytes:
        """Read the whole file and return its restart points, to be given to ``GzipText`` again.

        Raises:
            CorruptDataError: the file is damaged.
        """
        points = io.BytesIO()
        self._guarded("find restart points", self._file.build_full_index)
        self._guarded("keep restart points", lambda: self._file.export_index(fileobj=points))
        return points.getvalue()

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of the text from ``offset`` on.

        Raises:
            CorruptDataError: the file is damaged there.
        """
        self._guarded(f"reach the text at {offset}", lambda: self._file.seek(offset))
        return self._guarded(f"read the text at {offset}", lambda: bytes(self._file.read(length)))

    def _guarded(self, what: str, action: Callable[[], T]) -> T:
        """Run an action of the library; errors of the storage below it come through unchanged."""
        try:
            return action()
        except HeadraceError:
            raise
        except _ERRORS as error:
            if (failure := self._source.failure()) is not None:
                raise failure from error
            raise CorruptDataError(f"cannot {what}: {error}; the gzip file is damaged") from error


class _Source(io.RawIOBase):
    """A stream that remembers how reading it failed: the library takes it for a damaged file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._failure: HeadraceError | None = None

    def failure(self) -> HeadraceError | None:
        """Return the error of the last read, once."""
        failure, self._failure = self._failure, None
        return failure

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size)
        except HeadraceError as error:
            self._failure = error
            raise
