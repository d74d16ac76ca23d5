"""The storage port: the few things headrace asks of a store.

Paths are relative to the store's root and use ``/``. Every method is synchronous,
thread-safe and bounded in time; daemons call it from worker processes or threads.
Optional abilities (replica locations, replication) are protocols of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, runtime_checkable

from headrace.core.digest import Buffer


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as the store describes it."""

    path: str
    """Relative to the store's root."""

    size: int
    """Length [bytes]."""

    version: str
    """Changes whenever the content may have changed (a modification stamp or an entity tag)."""

    modified_s: float | None = field(default=None, compare=False)
    """When it was written (or renamed, in a store that renames by copying), by the store's own
    clock, since 1970 [s]; None: not known. Only to be compared with another file's: this host's
    clock may go wrong."""


CLOSED_FOLDER = "closed folder"
"""Version of a folder that is listed like a file because it cannot be looked into, although the
store as a whole can: it is closed to this user, or a link out of the root. Listing it says why."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """``length`` bytes of a file from ``offset`` on."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class FileRange:
    """``length`` bytes of the file ``path`` from ``offset`` on."""

    path: str
    offset: int
    length: int


class FileWriter(Protocol):
    """One file while it is being written; nobody sees it before ``commit``.

    For one thread. Leaving a ``with`` block without ``commit`` aborts. Where a node of the store
    dies meanwhile, what was written may be lost: ``write`` or ``commit`` raises, and the caller,
    who still has the bytes, begins the file anew.
    """

    def write(self, data: Buffer) -> None:
        """Append bytes; they may still be in memory when this returns.

        Raises:
            StorageError: the store does not take them; the file is to be begun anew.
        """
        ...

    def commit(self) -> FileInfo:
        """Make the bytes durable, then visible under the file's name, replacing what was there.

        Raises:
            StorageError: it cannot; what was there before is still there.
        """
        ...

    def abort(self) -> None:
        """Leave nothing behind; not an error after ``commit`` or a second time."""
        ...

    def __enter__(self) -> FileWriter: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Storage(Protocol):
    """A tree of files that can be read by range."""

    @property
    def url(self) -> str:
        """The root, as a URL or an absolute path."""
        ...

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, in path order.

        Args:
            prefix: Folder, or a single file.
            hidden: Also what lies below ``prefix`` under a name that starts with a dot; else
                such folders are not looked into.
            recursive: Also what lies in folders below ``prefix``; else only what lies directly in
                it, which the store is asked for once.

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

    def create(self, path: str) -> FileWriter:
        """Begin a file that is too large for ``write``; folders are made.

        Raises:
            StorageError: nothing can be written there.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file, replacing ``target`` atomically; durable when this returns.

        A store that can only copy and delete has both names meanwhile, and after a crash.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove one file; a file that is already gone is not an error."""
        ...

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is below it; one that is already gone is not an error.

        Not atomic: who lists it meanwhile may see a part.

        Raises:
            CallerError: ``path`` is the root itself.
        """
        ...

    def close(self) -> None:
        """Release handles; the object is not used afterwards."""
        ...


@runtime_checkable
class Describes(Protocol):
    """A store that describes a file by the way while it reads it."""

    def read_described(
        self, path: str, ranges: Sequence[ByteRange]
    ) -> tuple[Sequence[bytes], FileInfo]:
        """Return what ``read_ranges`` would, and the file as it was once they had been read.

        Raises: as ``read``.
        """
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


@runtime_checkable
class Assembles(Protocol):
    """A store that can join files without copying their bytes."""

    def assemble(self, path: str, parts: Sequence[str]) -> FileInfo:
        """Make one file of several, in their order; it appears, or is replaced, atomically.

        Args:
            path: The file.
            parts: At least one; all in one folder, which need not be that of ``path``. They are
                gone afterwards. A call that failed midway may be repeated with the parts that
                are still there: what it had joined is the first of them.

        Raises:
            NotFoundError: a part is not there.
            StorageError: the store refuses; the message says why.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeState:
    """One node of a store, as the store sees it."""

    name: str
    address: str
    """``IP:port`` that serves data."""

    transfers: int
    """Reads and writes that it serves now (HDFS: xceivers)."""

    capacity_bytes: int
    free_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreState:
    """How busy a replicating store is, and how fast it can make copies."""

    nodes: tuple[NodeState, ...]
    """Live ones."""

    missing_copies: int
    """Blocks that have fewer copies than asked for, and wait for some."""

    blocks_per_s: float
    """Copies of blocks that it begins in a second, over all nodes: its own throttle."""

    streams_per_node: int
    """Copies that one node sends at once (HDFS: replication.max-streams)."""


@runtime_checkable
class Observes(Protocol):
    """A store that can tell how busy it is."""

    def state(self) -> StoreState:
        """Return it, as of now.

        Raises:
            StorageError: the store cannot tell; the message says why.
        """
        ...
