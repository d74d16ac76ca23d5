"""Compares what the tables of an MP4 or QuickTime file count with what the file can hold.

FFmpeg makes entries of all samples that a table counts before it reads the first one: two
kilobytes that counted 40 million took 2.8 GB and 7 s, whoever opened them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import SEEK_END
from typing import BinaryIO

from headrace.core.errors import CorruptSampleError

MOST_EDITED = 1 << 24
"""Samples of a track times its edits: FFmpeg makes entries of each edit's samples; 0.4 GB."""

_FOLDERS = frozenset(
    (b"moov", b"trak", b"edts", b"mdia", b"minf", b"stbl", b"dinf", b"udta", b"tref", b"mvex")
)
"""Boxes that hold boxes, among which FFmpeg looks for tables."""

_DEEPEST = 16
_TABLES = frozenset((b"stsz", b"stts", b"ctts", b"elst", b"cmov"))
_RUN = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class _Box:
    kind: bytes
    begin: int
    """Where its content begins."""

    end: int


def require_credible_tables(stream: BinaryIO) -> None:
    """Leave a stream at its start, if its tables count no more than the file can hold.

    Files of other formats pass. Of fragments only the common header is looked at.

    Raises:
        CorruptSampleError: a track counts more samples than the file has bytes, or too many edits
            of them, or the header is compressed, which nothing has written for decades.
    """
    size = stream.seek(0, SEEK_END)
    header = next((box for box in _boxes(stream, 0, size) if box.kind == b"moov"), None)
    samples = edits = 0
    for box in _tables(stream, header, 0) if header else ():
        if box.kind == b"cmov":
            raise CorruptSampleError("its header is compressed; write the file anew")
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
    stream.seek(0)


def _boxes(stream: BinaryIO, begin: int, end: int) -> Iterator[_Box]:
    while end - begin >= _RUN.size:
        stream.seek(begin)
        head = stream.read(16)
        size, head_bytes = int.from_bytes(head[:4], "big"), 8
        if size == 1 and len(head) == 16:
            size, head_bytes = int.from_bytes(head[8:], "big"), 16
        elif size == 0:
            size = end - begin
        if size < head_bytes:
            return
        yield _Box(head[4:8], begin + head_bytes, min(begin + size, end))
        begin += size


def _tables(stream: BinaryIO, folder: _Box, depth: int) -> Iterator[_Box]:
    for box in _boxes(stream, folder.begin, folder.end):
        if box.kind in _TABLES:
            yield box
        elif box.kind in _FOLDERS and depth < _DEEPEST:
            yield from _tables(stream, box, depth + 1)


def _counted(stream: BinaryIO, box: _Box) -> int:
    """Return how many samples a table counts, or how many edits."""
    stream.seek(box.begin)
    head = stream.read(12)
    if len(head) < 12:
        return 0
    if box.kind == b"stsz":
        return int.from_bytes(head[8:], "big")
    entries = int.from_bytes(head[4:8], "big")
    if box.kind == b"elst":
        return entries
    stream.seek(box.begin + 8)
    runs = stream.read(min(entries * _RUN.size, box.end - box.begin - 8))
    return sum(count for count, _ in _RUN.iter_unpack(runs[: len(runs) // 8 * 8]))
