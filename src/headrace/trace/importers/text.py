"""Reads traces that are lines of text, plain or gzip, in pieces of whole lines."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.core.errors import CorruptDataError, StorageError
from headrace.trace.importer import HEAD_BYTES, Notes

PIECE_BYTES = 4 << 20
"""About so much text is decoded at once, some 16,000 events: with four times as much or as little,
reading takes a tenth longer [bytes]."""

LONGEST_LINE = 64 << 20
"""A longer line is no event [bytes]."""

_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"
_GZIP_WBITS = 31
_NO_NUMBER = re.compile(rb"([:\[,]\s*)-?(?:nan|inf|NaN|Infinity)\b")


class _Member(Protocol):
    """A decompressor of zlib, which has no name there."""

    def decompress(self, data: bytes, /) -> bytes: ...


class Source(Protocol):
    """A binary file, or what reads like one."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some whole lines of a text."""

    data: bytes
    line: int
    """Number of the first, from 1."""

    offset: int
    """Of the first byte in the text, decompressed [bytes]."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the file system into those of headrace.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot read the trace {path}: {error.strerror or error}") from error


class Counted:
    """A file that tells how far it was read."""

    def __init__(self, file: Source, advanced: Callable[[int], None]) -> None:
        self._file = file
        self._advanced = advanced

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""
        data = self._file.read(size)
        self._advanced(len(data))
        return data


def head_of(path: Path) -> bytes:
    """Return a file's first bytes, decompressed where it is gzip, as far as that goes.

    Raises:
        StorageError: the file cannot be read.
    """
    with reading(path), path.open("rb") as file:
        data = file.read(HEAD_BYTES)
    if not data.startswith(_GZIP):
        return data
    try:
        return zlib.decompressobj(_GZIP_WBITS).decompress(data, HEAD_BYTES)
    except zlib.error:
        return b"".join(_before_damage(zlib.decompressobj(_GZIP_WBITS), data)) or data


def file_chunks(path: Path, notes: Notes, advanced: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the text of a file, decompressed where it is gzip.

    Raises:
        StorageError: the file cannot be read.
    """
    with reading(path), path.open("rb", buffering=0) as file:
        yield from text_chunks(Counted(file, advanced), str(path), notes)


def text_chunks(source: Source, where: str, notes: Notes) -> Iterator[bytes]:
    """Yield the text of a source, decompressed where it is gzip."""
    chunks = iter(lambda: source.read(_CHUNK), b"")
    first = next(chunks, b"")
    if not first:
        notes.problem(f"{where} is empty")
    elif first.startswith(_GZIP):
        yield from _inflated(_joined(first, chunks), where, notes)
    else:
        yield from _joined(first, chunks)


def pieces(chunks: Iterable[bytes], where: str) -> Iterator[Piece]:
    """Yield a text in pieces of about :data:`PIECE_BYTES` that end with a line.

    Raises:
        CorruptDataError: a line is longer than any event.
    """
    held: list[bytes] = []
    size, line, offset = 0, 1, 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size < PIECE_BYTES:
            continue
        text = b"".join(held)
        end = text.rfind(b"\n") + 1
        if end:
            yield Piece(text[:end], line, offset)
            line += text.count(b"\n", 0, end)
            offset += end
        elif size > LONGEST_LINE:
            raise CorruptDataError(
                f"{where}, line {line}: longer than {LONGEST_LINE} bytes; events stand on lines "
                "of their own"
            )
        held = [text[end:]]
        size = len(held[0])
    if size:
        yield Piece(b"".join(held), line, offset)


def nan_as_null(text: bytes) -> bytes:
    """Return JSON for what some programs write for it: it knows no NaN and no infinity."""
    return _NO_NUMBER.sub(rb"\1null", text)


def _joined(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _inflated(chunks: Iterator[bytes], where: str, notes: Notes) -> Iterator[bytes]:
    """Yield what gzip members, one after the other, hold; what is cut or damaged ends it."""
    member = zlib.decompressobj(_GZIP_WBITS)
    offset = 0
    for chunk in chunks:
        rest = chunk
        while rest:
            if member.eof:
                rest = rest.lstrip(b"\0")
                if rest:
                    member = zlib.decompressobj(_GZIP_WBITS)
                continue
            sound = member.copy()
            try:
                data = member.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                before = list(_before_damage(sound, rest))
                yield b"".join(before)
                place = offset + len(chunk) - len(rest) + len(before)
                notes.problem(f"{where}, byte {place}: damaged gzip ({error}); the rest is lost")
                return
            if data:
                yield data
            rest = member.unused_data if member.eof else member.unconsumed_tail
        offset += len(chunk)
    if data := member.flush():
        yield data
    if not member.eof:
        notes.problem(f"{where}, byte {offset}: ends within its gzip data; the rest is lost")


def _before_damage(member: _Member, data: bytes) -> Iterator[bytes]:
    """Yield what each byte of gzip data adds, up to the damage in it."""
    with suppress(zlib.error):
        for place in range(len(data)):
            yield member.decompress(data[place : place + 1])
