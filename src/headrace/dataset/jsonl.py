"""Scans JSON lines and arrays of records: plain, gzip (restart points) and Zstandard (frames).

Each line that is not blank, and each element of an array (``jsonarray``), is a sample, whether it
is good or broken: a text, or a document that names pictures (``documentline``). Offsets are those
of the uncompressed text; what turns them into places in a compressed file is kept beside the index
(``side``).
"""

from __future__ import annotations

import gzip
import io
import posixpath
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.cost import text_cost
from headrace.dataset.documentline import CONVERSATION, TURNS, Document, document_in
from headrace.dataset.gziptext import RESTART_BYTES
from headrace.dataset.jsonarray import OPENING_BYTES, begins_array, elements
from headrace.dataset.location import WHOLE_FILE, Kind, Member, SampleLocation
from headrace.dataset.namedfiles import file_named
from headrace.dataset.probe import Headers
from headrace.dataset.scan import Scan, ScanSource
from headrace.dataset.textline import TextLine
from headrace.dataset.zstdframes import FrameTable, FrameWalker

LINE_BYTES = 64 * 1024 * 1024
"""Longest line that is one sample [bytes]."""

SLOW_FRAME_BYTES = 16 * 1024 * 1024
"""A Zstandard frame with more text than this is reported as slow to read [bytes]."""

_DAMAGED = "only the lines before the damage are samples; then: {}"

BlockOf = Callable[[int], int]


class HasLines(Protocol):
    """A stream of text, compressed or not."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or its first ``size`` bytes."""
        ...

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; nothing at the end."""
        ...

    def peek(self, size: int, /) -> bytes:
        """Return some of what comes next; it is still to be read."""
        ...


def scan_jsonl(source: ScanSource) -> Scan:
    """Yield the lines of a file, and what is wrong with it."""
    path = source.file.path.lower()
    if path.endswith(".gz"):
        return _scan_gzip(source)
    if path.endswith(".zst"):
        return _scan_zstd(source)
    return _scan_plain(source)


def _scan_plain(source: ScanSource) -> Scan:
    try:
        with source.open() as stream:
            yield from _samples(source, stream, lambda _: -1)
    except HeadraceError as error:
        yield source.broken(str(error))


def _scan_gzip(source: ScanSource) -> Scan:
    try:
        # Python's gzip is the stricter reader of the two: it notices a missing end.
        with source.open() as stream, gzip.GzipFile(fileobj=stream) as text:
            yield from _samples(source, text, lambda offset: offset // RESTART_BYTES)
        points = source.restart_points()
    except (HeadraceError, OSError, EOFError, zlib.error) as error:
        yield source.broken(_DAMAGED.format(error))
        return
    source.side.put(source.file, points)


def _scan_zstd(source: ScanSource) -> Scan:
    walker = FrameWalker(source.open)
    try:
        yield from _samples(source, io.BufferedReader(walker), walker.number_at)
    except HeadraceError as error:
        yield source.broken(_DAMAGED.format(error))
    source.side.put(source.file, walker.table.to_bytes())
    yield from _slow_frames(source, walker.table)


def _slow_frames(source: ScanSource, table: FrameTable) -> Scan:
    largest = max((frame.text_length for frame in table.frames), default=0)
    if largest > SLOW_FRAME_BYTES:
        yield source.slow(
            f"one Zstandard frame holds {largest / 1e6:.0f} MB of text, and a record can only be "
            "read from its frame's start; compress in parts, e.g. "
            "`split -C 4M --filter=zstd IN.jsonl > OUT.jsonl.zst`"
        )


def _samples(source: ScanSource, stream: HasLines, block_of: BlockOf) -> Iterator[SampleLocation]:
    text_line = TextLine(source.options.text_field)
    is_array = begins_array(stream.peek(OPENING_BYTES))
    for line in _elements(stream) if is_array else _lines(stream):
        yield _sample(source, text_line, line, block_of(line.offset))


def _sample(source: ScanSource, text_line: TextLine, line: _Line, block: int) -> SampleLocation:
    kind, members, broken = _described(source, text_line, line)
    return source.sample(
        key=f"{source.file.path}#{line.number}",
        kind=kind,
        container="jsonl",
        offset=line.offset,
        length=len(line.content),
        members=members,
        row=line.number,
        block=block,
        headers=Headers(cost_s=text_cost(len(line.content)), broken=broken),
    )


def _described(
    source: ScanSource, text_line: TextLine, line: _Line
) -> tuple[Kind, tuple[Member, ...], str | None]:
    """Return what a line is, where its fields are, and why it is broken."""
    try:
        document = None if line.too_long else document_in(line.content, text_line.field)
        if document is not None:
            kind: Kind = "image" if document.pictures else "text"
            return kind, tuple(_members(source, line, document)), None
        broken = line.too_long or text_line.fault(line.content)
    except CorruptDataError as error:
        broken = str(error)
    return "text", (_member(line, "text", text_line.field),), broken


def _member(line: _Line, field: str, key: str) -> Member:
    return Member(field=field, name=key, offset=line.offset, length=len(line.content))


def _members(source: ScanSource, line: _Line, document: Document) -> Iterator[Member]:
    if document.key:
        yield _member(line, "text", document.key)
    if document.key == TURNS:
        yield _member(line, "json", CONVERSATION)
    folder = posixpath.dirname(source.file.path)
    for field, name in document.pictures.items():
        yield Member(field=field, name=file_named(folder, name), offset=WHOLE_FILE, length=0)


class _Line(msgspec.Struct, frozen=True):
    number: int
    offset: int
    content: bytes
    too_long: str | None = None


def _elements(stream: HasLines) -> Iterator[_Line]:
    """Yield the elements of an array as what would be a line each."""
    for number, (offset, content) in enumerate(elements(stream, LINE_BYTES)):
        yield _Line(number, offset, content)


def _lines(stream: HasLines) -> Iterator[_Line]:
    """Yield the lines that are not blank; of one that is too long, only the beginning."""
    number = offset = 0
    while content := stream.readline(LINE_BYTES + 1):
        rest = 0 if len(content) <= LINE_BYTES else _skip_line(stream, content)
        if text := content.rstrip(b"\r\n"):
            yield _Line(number, offset, text, _TOO_LONG if rest else None)
        offset += len(content) + rest
        number += 1


_TOO_LONG = f"the line is longer than {LINE_BYTES >> 20} MiB; split it"


def _skip_line(stream: HasLines, content: bytes) -> int:
    skipped, last = 0, content
    while not last.endswith(b"\n") and (last := stream.readline(LINE_BYTES)):
        skipped += len(last)
    return skipped
