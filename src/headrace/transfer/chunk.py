"""Copies one chunk of a file into the destination's staging folder, verified.

A chunk that is there already is left alone, one that an earlier checkpoint holds is taken from
it, everything else is read from the source in pieces. Nothing is told by anything but the
stores, so a chunk may be copied again, elsewhere, or twice at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from headrace.core.digest import ContentDigest
from headrace.core.errors import (
    CorruptDataError,
    NotFoundError,
    StaleError,
    StorageError,
)
from headrace.storage.port import Storage

PIECE_BYTES = 4 << 20
"""Most that is read, and asked of a budget, at once [bytes]."""

Take: TypeAlias = Callable[[int], None]
"""Waits until so many bytes may be read from the source."""

_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class HeldChunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same bytes in a file that the destination has."""

    path: str
    """Relative to the destination's root."""

    offset: _Size


class ChunkTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consecutive bytes of one file, and where a copy of them goes."""

    source: str
    """URL of the store that has the file."""

    destination: str
    """URL of the store that gets the copy."""

    path: str
    """The file, relative to the source's root."""

    version: str
    """Of the file; bytes of another one are refused."""

    offset: _Size
    length: _Size

    staged: str
    """Where the copy goes, relative to the destination's root; the digest is added to it."""

    digest: _Digest | None = None
    """What the bytes must have (XXH3-128, hex); None: not known beforehand."""

    held: HeldChunk | None = None
    """Where the destination has bytes with this digest; None: nowhere that is known."""

    read_back: bool = False
    """Read the copy again and compare; for stores that do not verify what they keep."""


class ChunkDone(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk whose copy is staged."""

    nbytes: int
    digest: str
    """Of the bytes (XXH3-128, hex)."""

    part: str
    """Path of the copy, relative to the destination's root."""

    sent: bool
    """Whether bytes were read from the source; else the destination had them."""


def part_path(staged: str, digest: str) -> str:
    """Return the path of a chunk's finished copy."""
    return f"{staged}-{digest}"


def copy_chunk(
    task: ChunkTask,
    source: Storage,
    destination: Storage,
    take: Take,
    *,
    piece_bytes: int = PIECE_BYTES,
) -> ChunkDone:
    """Copy one chunk; return when its copy is durable and verified.

    Args:
        task: What to copy.
        source: The store at ``task.source``.
        destination: The store at ``task.destination``.
        take: Called before each piece is read from the source, with its length.
        piece_bytes: Most that is read at once; a budget is held to as finely as this.

    Raises:
        StaleError: the source's file is not, or no longer, of ``task.version``.
        NotFoundError: the source's file is gone.
        CorruptDataError: the bytes do not have ``task.digest``, or other bytes are read back
            than were written; nothing is staged.
        StorageError, DeadlineError: a store failed; the message says which and why.
    """
    copy = _Copy(task, destination, piece_bytes)
    done = copy.found() or copy.taken_from_held()
    if done is not None:
        return done
    digest = copy.stage(_read_source(task, source, take, piece_bytes))
    return copy.done(digest, sent=True)


@dataclass(frozen=True, slots=True)
class _Copy:
    """One chunk on its way into the staging folder."""

    task: ChunkTask
    destination: Storage
    piece_bytes: int

    def done(self, digest: str, *, sent: bool) -> ChunkDone:
        """Describe the finished copy."""
        part = part_path(self.task.staged, digest)
        return ChunkDone(nbytes=self.task.length, digest=digest, part=part, sent=sent)

    def found(self) -> ChunkDone | None:
        """Return the copy that is staged already."""
        digest = self.task.digest
        if digest is None:
            return None
        try:
            size = self.destination.stat(part_path(self.task.staged, digest)).size
        except NotFoundError:
            return None
        return self.done(digest, sent=False) if size == self.task.length else None

    def taken_from_held(self) -> ChunkDone | None:
        """Copy within the destination; None: what it holds is no longer that, or cannot be read."""
        task = self.task
        if task.held is None or task.digest is None:
            return None
        ranges = _pieces(task.held.offset, task.length, self.piece_bytes)
        held = task.held.path
        try:
            digest = self.stage(self.destination.read(held, *one) for one in ranges)
        except (NotFoundError, CorruptDataError, StorageError):  # the source has it as well
            return None
        return self.done(digest, sent=False)

    def stage(self, pieces: Iterator[bytes]) -> str:
        """Write the pieces under a name that tells their digest, and return the digest."""
        small = self.task.length <= self.piece_bytes
        digest = self._stage_at_once(pieces) if small else self._stage_by_pieces(pieces)
        if self.task.read_back:
            self._require_written(digest)
        return digest

    def _stage_at_once(self, pieces: Iterator[bytes]) -> str:
        data = b"".join(pieces)
        digest = self._checked(ContentDigest(data))
        self.destination.write(part_path(self.task.staged, digest), data)
        return digest

    def _stage_by_pieces(self, pieces: Iterator[bytes]) -> str:
        """Write the pieces as they come; the name, which tells the digest, is given at the end."""
        state = ContentDigest()
        unnamed = f"{self.task.staged}.{secrets.token_hex(4)}"
        with self.destination.create(unnamed) as writer:
            for piece in pieces:
                state.update(piece)
                writer.write(piece)
            digest = self._checked(state)
            writer.commit()
        self.destination.rename(unnamed, part_path(self.task.staged, digest))
        return digest

    def _checked(self, state: ContentDigest) -> str:
        digest = state.hexdigest()
        if self.task.digest not in (None, digest):
            raise CorruptDataError(
                f"{self._range} have the digest {digest}, not {self.task.digest} as the "
                "checkpoint's manifest says; they were damaged after it was written: copy "
                "another checkpoint, or delete the manifest to copy this one as it is"
            )
        return digest

    def _require_written(self, digest: str) -> None:
        part, state = part_path(self.task.staged, digest), ContentDigest()
        for one in _pieces(0, self.task.length, self.piece_bytes):
            state.update(self.destination.read(part, *one))
        if state.hexdigest() != digest:
            self.destination.delete(part)
            raise CorruptDataError(
                f"{self.destination.url}/{part} is not what was written to it for {self._range}; "
                "the destination damages files: check its disks"
            )

    @property
    def _range(self) -> str:
        task = self.task
        return f"{task.length} bytes of {task.source}/{task.path} from byte {task.offset} on"


def _read_source(task: ChunkTask, source: Storage, take: Take, piece_bytes: int) -> Iterator[bytes]:
    """Yield the chunk's pieces; that they are of one version is known when the iterator ends.

    A store may know a file from a moment ago, and go over to the newest version while it is
    read: so the version is looked at before and after.
    """
    _require_version(task, source)
    try:
        for offset, length in _pieces(task.offset, task.length, piece_bytes):
            take(length)
            yield source.read(task.path, offset, length)
    except StorageError:
        _require_version(task, source)  # a file that shrank is told as one that was replaced
        raise
    _require_version(task, source)


def _require_version(task: ChunkTask, source: Storage) -> None:
    found = source.stat(task.path).version
    if found != task.version:
        raise StaleError(
            f"{task.source}/{task.path} was replaced (its version is {found}, not "
            f"{task.version}); list the checkpoint again and copy what is there now"
        )


def _pieces(offset: int, length: int, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of pieces that together are a range."""
    for start in range(offset, offset + length, piece_bytes):
        yield start, min(piece_bytes, offset + length - start)
