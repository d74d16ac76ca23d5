"""What is kept of files, piece by piece, within a bound. No I/O; event loop's thread only.

Ranges that are asked for are cut at multiples of ``PIECE_BYTES``, so that leases whose ranges
overlap share the pieces in the middle. All that is kept of a file is of one version: when a
piece of another is read, those of before are let go of.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.agent.roots import Located

PIECE_BYTES = 8 << 20
"""Longest piece that is read and kept as one [bytes]."""


@dataclass(frozen=True, slots=True)
class FileName:
    """A file inside the agent's roots; the same one by whichever folder above it it is named."""

    place: Located = field(compare=False)
    path: str = field(compare=False)
    """Relative to ``place``, without ``..``."""

    whole: str = field(init=False)
    """URL or path."""

    def __post_init__(self) -> None:
        whole = _joined(self.place.url, self.path)
        object.__setattr__(self, "whole", whole)


class Piece(NamedTuple):
    """Bytes of one file."""

    file: FileName
    offset: int
    length: int

    @property
    def end(self) -> int:
        """First byte behind it."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Versioned:
    """Bytes, and the version of the file that they are from."""

    version: str
    parts: Sequence[memoryview]


class Seen(NamedTuple):
    """What is known of a file that is kept."""

    version: str
    at: float
    """When it had this version for certain [s]."""


@dataclass(eq=False, slots=True)
class Kept:
    """A piece that is kept, or is to be."""

    piece: Piece
    users: int = 0
    data: bytes | None = None
    """None: not read yet, or let go of."""

    let_go: bool = False
    reason: str = ""
    """Why it could not be read."""

    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it was read or let go of."""


@dataclass(slots=True)
class _File:
    """What is kept of one."""

    order: list[Kept] = field(default_factory=list)
    """By offset, with some among them that were let go of."""

    live: int = 0
    ready_bytes: int = 0

    version: str = ""
    seen_at: float = 0.0


class RangeMemory:
    """Pieces and who uses them."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.used = 0
        """Bytes that are kept, or are to be."""

        self._pieces: dict[Piece, Kept] = {}
        self._files: dict[FileName, _File] = {}

    def take(self, piece: Piece) -> tuple[Kept | None, bool]:
        """Use a piece; return it, None if there is no room, and whether it is still to be read."""
        kept = self._pieces.get(piece)
        is_new = kept is None
        if kept is None:
            if self.used + piece.length > self.nbytes:
                return None, False
            kept = self._pieces[piece] = Kept(piece)
            file = self._files.setdefault(piece.file, _File())
            insort(file.order, kept, key=_offset)
            file.live += 1
            self.used += piece.length
        kept.users += 1
        return kept, is_new

    def give_back(self, kept: Kept) -> None:
        """Use a piece no more; one that nobody uses is let go of."""
        kept.users -= 1
        if not kept.users:
            self._let_go(kept)

    def fill(self, kept: Kept, found: Versioned, now: float) -> None:
        """Keep what was read of a piece, if it is still wanted."""
        if kept.let_go:
            return
        file = self._files[kept.piece.file]
        if found.version != file.version:
            self.forget(kept.piece.file, file.version)
        file.version, file.seen_at = found.version, now
        file.ready_bytes += kept.piece.length
        kept.data = b"".join(found.parts)
        kept.settled.set()

    def fail(self, kept: Kept, reason: str) -> None:
        """Let go of a piece that cannot be read."""
        kept.reason = reason
        self._let_go(kept)

    async def find(self, wanted: Piece) -> Versioned | None:
        """Return bytes if all of them are kept, once those that are on their way are there."""
        for kept in self._covering(wanted) or ():
            await kept.settled.wait()
        covering = self._covering(wanted)
        if covering is None or any(kept.data is None for kept in covering):
            return None
        return Versioned(self._files[wanted.file].version, list(_parts(covering, wanted)))

    def seen(self, file: FileName) -> Seen | None:
        """Return what version is kept of a file; None: nothing is."""
        known = self._files.get(file)
        return Seen(known.version, known.seen_at) if known and known.version else None

    def confirm(self, file: FileName, now: float) -> None:
        """Note that a file is, or is about to be, looked at again."""
        if file in self._files:
            self._files[file].seen_at = now

    def below(self, place: Located) -> Iterator[tuple[str, int]]:
        """Yield the files below a folder of which something is kept, or is to be.

        By path relative to the folder, with the bytes that lie ready.
        """
        folder = _joined(place.url, "")
        for name, known in self._files.items():
            if name.whole.startswith(folder):
                yield name.whole[len(folder) :], known.ready_bytes

    def forget(self, file: FileName, version: str) -> None:
        """Let go of what was read of a version of a file: it is another one by now."""
        known = self._files.get(file)
        if known is None or known.version != version:
            return
        for kept in [kept for kept in known.order if kept.data is not None]:
            self._let_go(kept)

    def _covering(self, wanted: Piece) -> list[Kept] | None:
        """Return pieces of which each begins in the one before or at its end; None: a gap."""
        file, at, covering = self._files.get(wanted.file), wanted.offset, []
        while file is not None and at < wanted.end:
            kept = _holding(file.order, at)
            if kept is None:
                return None
            covering.append(kept)
            at = kept.piece.end
        return covering or None

    def _let_go(self, kept: Kept) -> None:
        if kept.let_go:
            return
        piece = kept.piece
        file = self._files[piece.file]
        file.ready_bytes -= piece.length if kept.data is not None else 0
        kept.data, kept.let_go = None, True
        kept.settled.set()
        del self._pieces[piece]
        self.used -= piece.length
        file.live -= 1
        if not file.live:
            del self._files[piece.file]
        elif 2 * file.live < len(file.order):
            file.order = [one for one in file.order if not one.let_go]


def _joined(url: str, path: str) -> str:
    """Return a file's whole name; of the empty path, that of a folder with its slash."""
    named = [name for name in path.split("/") if name not in ("", ".")]
    return "/".join([url.rstrip("/"), *(named or [""])])


def cut(file: FileName, offset: int, length: int) -> Iterator[Piece]:
    """Yield the pieces of a range."""
    end = offset + length
    while offset < end:
        cut_at = min(end, (offset // PIECE_BYTES + 1) * PIECE_BYTES)
        yield Piece(file, offset, cut_at - offset)
        offset = cut_at


def _parts(covering: Sequence[Kept], wanted: Piece) -> Iterator[memoryview]:
    at = wanted.offset
    for kept in covering:
        begin, end = kept.piece.offset, min(kept.piece.end, wanted.end)
        yield memoryview(kept.data or b"")[at - begin : end - begin]
        at = end


def _offset(kept: Kept) -> int:
    return kept.piece.offset


def _holding(order: Sequence[Kept], at: int) -> Kept | None:
    """Return a piece that holds a byte, of several the one that begins last."""
    index = bisect_right(order, at, key=_offset) - 1
    while index >= 0 and order[index].piece.offset > at - PIECE_BYTES:
        kept = order[index]
        if kept.piece.end > at and not kept.let_go:
            return kept
        index -= 1
    return None
