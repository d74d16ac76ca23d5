"""The storage port: the few things headrace asks of a store.

Paths are relative to the store's root and use ``/``. Every method is synchronous,
thread-safe and bounded in time; daemons call it from worker processes or threads.
Optional abilities (replica locations, replication) are protocols of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as the store describes it."""

    path: str
    """Relative to the store's root."""

    size: int
    """Length [bytes]."""

    version: str
    """Changes whenever the content may have changed (a modification stamp or an entity tag)."""


CLOSED_FOLDER = "closed folder"
"""Version of a folder that is listed like a file because it cannot be looked into, although the
store as a whole can: it is closed to this user, or a link out of the root. Listing it says why."""


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

    def list(self, prefix: str = "", *, hidden: bool = True) -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, recursively, in path order.

        Args:
            prefix: Folder, or a single file.
            hidden: Also what lies below ``prefix`` under a name that starts with a dot; else
                such folders are not looked into.

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


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a block, on one storage node."""

    host: str
    """Name of the node as the store knows it."""

    address: str
    """``IP:port`` that serves the copy; tells nodes apart that share a name."""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """One block of a file and the nodes that hold it."""

    offset: int
    length: int
    replicas: tuple[Replica, ...]
    """Live copies, the nearest to this host first; empty when all are lost."""


@runtime_checkable
class Locates(Protocol):
    """A store that can tell which nodes hold a file."""

    def locations(self, path: str) -> Sequence[BlockPlace]:
        """Return a file's blocks in order, as they are placed now.

        Raises:
            NotFoundError: there is no such file.
            StorageError: the store cannot tell; the message says why.
        """
        ...


@runtime_checkable
class Replicates(Protocol):
    """A store whose files have a number of copies that can be changed."""

    def replication(self, path: str) -> int:
        """Return how many copies of a file are asked for.

        Raises:
            NotFoundError: there is no such file.
        """
        ...

    def set_replication(self, path: str, copies: int) -> None:
        """Ask for another number of copies; the store makes or drops them in its own time.

        Readiness is what ``Locates.locations`` shows, not the return of this call.

        Raises:
            NotFoundError: there is no such file.
            StorageError: the store refuses the number.
        """
        ...
