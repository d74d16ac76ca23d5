"""The storage port: the few things headrace asks of a store.

Paths are relative to the store's root and use ``/``. Every method is synchronous,
thread-safe and bounded in time; daemons call it from worker processes or threads.
Optional abilities (replica locations, replication) are protocols of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as the store describes it."""

    path: str
    """Relative to the store's root."""

    size: int
    """Length [bytes]."""

    version: str
    """Changes whenever the content may have changed (a modification stamp or an entity tag)."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """``length`` bytes of a file from ``offset`` on."""

    offset: int
    length: int


class Storage(Protocol):
    """A tree of files that can be read by range."""

    @property
    def url(self) -> str:
        """The root, as a URL or an absolute path."""
        ...

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, recursively, in path order.

        Raises:
            NotFoundError: ``prefix`` does not exist.
        """
        ...

    def stat(self, path: str) -> FileInfo:
        """Describe one file.

        Raises:
            NotFoundError: there is no such file.
        """
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return ``length`` bytes from ``offset`` (to the end when None).

        Raises:
            NotFoundError: there is no such file.
            StorageError: fewer bytes than asked for could be read; the message says why.
        """
        ...

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Sequence[bytes]:
        """Return the bytes of each range, in the order asked for."""
        ...

    def write(self, path: str, data: bytes) -> FileInfo:
        """Create or replace a file atomically: readers see the old bytes or the new ones."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file, replacing ``target`` atomically."""
        ...

    def delete(self, path: str) -> None:
        """Remove one file; a file that is already gone is not an error."""
        ...

    def close(self) -> None:
        """Release handles; the object is not used afterwards."""
        ...
