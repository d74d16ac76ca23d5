"""Compares what the tables of an MP4 or QuickTime file count with what the file can hold.

FFmpeg makes entries of all samples that a table counts before it reads the first one: two
kilobytes that counted 40 million took 2.8 GB and 7 s, whoever opened them. So it does of what
fragments count, all of which it looks up when it opens a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_END, BufferedReader
from typing import BinaryIO

from headrace.core.errors import CorruptSampleError

MOST_EDITED = 1 << 24
"""Samples of a track times its edits: FFmpeg makes entries of each edit's samples; 0.4 GB."""

MOST_BOXES = 1 << 21
"""Boxes that are looked at: fragments of a second make a third as many in a day. Each takes 4 µs
here, and 1 µs of FFmpeg; a file of a gigabyte may have a hundred million."""

_FOLDERS = frozenset(
    (b"moov", b"trak", b"edts", b"mdia", b"minf", b"stbl", b"dinf", b"udta", b"tref", b"mvex")
) | {b"moof", b"traf"}
"""Boxes that hold boxes, among which FFmpeg looks for tables."""

_DEEPEST = 16

_HEAD_BYTES = 4096
"""What is read of each fragment: they lie far apart, and their heads are short [bytes]."""

_TABLES = frozenset((b"stsz", b"stts", b"ctts", b"elst", b"cmov", b"trex", b"trun"))
_RUN = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class _Box:
    kind: bytes
    begin: int
    """Where its content begins."""

    end: int


def require_credible_tables(stream: BinaryIO) -> None:
    """Leave a stream at its start, if its tables count no more than the file can hold.

    Files of other formats pass.

    Raises:
        CorruptSampleError: a track counts more samples than the file has bytes, or too many edits
            of them, or the header is compressed, which nothing has written for decades.
    """
    size = stream.seek(0, SEEK_END)
    walk = _Walk(stream)
    header = next((box for box in walk.boxes(0, size) if box.kind == b"moov"), None)
    samples = edits = 0
    has_fragments = False
    for box in walk.tables(header) if header else ():
        if box.kind == b"cmov":
            raise CorruptSampleError("its header is compressed; write the file anew")
        has_fragments = has_fragments or box.kind == b"trex"
        counted = _counted(stream, box)
        if box.kind == b"elst":
            edits = max(edits, counted)
            continue
        samples = max(samples, counted)
        if samples > size:
            raise CorruptSampleError(
                f"a track counts {samples} samples, but the file has {size} B; replace the file "
                "or leave it out"
            )
    if edits > 1 and samples * edits > MOST_EDITED:
        raise CorruptSampleError(
            f"its {edits} edits of {samples} samples are more than {MOST_EDITED} in all; write "
            "the file anew without edits"
        )
    if has_fragments and header is not None:
        _require_credible_fragments(stream, header.end, size)
    stream.seek(0)


def _require_credible_fragments(stream: BinaryIO, begin: int, size: int) -> None:
    samples = 0
    with _heads_of(stream) as heads:
        for box in _Walk(heads).tables(_Box(b"", begin, size)):
            samples += _counted(heads, box) if box.kind == b"trun" else 0
            if samples > size:
                raise CorruptSampleError(
                    f"its fragments count {samples} samples, but the file has {size} B; replace "
                    "the file or leave it out"
                )


@contextmanager
def _heads_of(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Read a little at a time for a while, where a stream has a buffer to be filled."""
    if not isinstance(stream, BufferedReader):
        yield stream
        return
    position, heads = stream.raw.tell(), BufferedReader(stream.raw, _HEAD_BYTES)
    try:
        yield heads
    finally:
        heads.detach()  # else it would close what both read
        stream.raw.seek(position)


class _Walk:
    """Goes through the boxes of a stream, ``MOST_BOXES`` of them at most."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._seen = 0

    def tables(self, folder: _Box, depth: int = 0) -> Iterator[_Box]:
        """Yield the tables in a box, and in those that it holds."""
        for box in self.boxes(folder.begin, folder.end):
            if box.kind in _TABLES:
                yield box
            elif box.kind in _FOLDERS and depth < _DEEPEST:
                yield from self.tables(box, depth + 1)

    def boxes(self, begin: int, end: int) -> Iterator[_Box]:
        """Yield the boxes that lie side by side in a stretch."""
        while end - begin >= _RUN.size:
            box = self._box(begin, end)
            if box is None:
                return
            yield box
            begin = box.end

    def _box(self, begin: int, end: int) -> _Box | None:
        self._seen += 1
        if self._seen > MOST_BOXES:
            raise CorruptSampleError(
                f"it has more than {MOST_BOXES} boxes; write the file anew, in longer fragments"
            )
        self._stream.seek(begin)
        head = self._stream.read(16)
        size, head_bytes = int.from_bytes(head[:4], "big"), 8
        if size == 1 and len(head) == 16:
            size, head_bytes = int.from_bytes(head[8:], "big"), 16
        elif size == 0:
            size = end - begin
        if size < head_bytes:
            return None
        return _Box(head[4:8], begin + head_bytes, min(begin + size, end))


def _counted(stream: BinaryIO, box: _Box) -> int:
    """Return how many samples a table counts, or how many edits; 0 where it does not count."""
    stream.seek(box.begin)
    head = stream.read(12)
    if len(head) < 12 or box.kind == b"trex":
        return 0
    if box.kind == b"stsz":
        return int.from_bytes(head[8:], "big")
    entries = int.from_bytes(head[4:8], "big")
    if box.kind in (b"elst", b"trun"):
        return entries
    stream.seek(box.begin + 8)
    runs = stream.read(min(entries * _RUN.size, box.end - box.begin - 8))
    return sum(count for count, _ in _RUN.iter_unpack(runs[: len(runs) // 8 * 8]))
