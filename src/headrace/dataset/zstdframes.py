"""A Zstandard file as a row of frames, each of which can be decompressed by itself."""

from __future__ import annotations

import bisect
import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
import zstandard

from headrace.core.errors import CorruptDataError

READ_BYTES = 32 * 1024
"""Compressed bytes that are read at a time [bytes]."""

PIECE_BYTES = 2048
"""Compressed bytes that are decompressed at a time: to 64 MiB at most, as a block of 128 KiB that
repeats one byte takes 4 [bytes]."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One frame: where it is in the file, and where its content is in the text."""

    offset: int
    length: int
    text_offset: int
    text_length: int


class FrameTable(msgspec.Struct, frozen=True):
    """All frames of a file that hold text, in order."""

    frames: tuple[Frame, ...]

    def covering(self, offset: int, length: int) -> tuple[Frame, ...]:
        """Return the frames that hold ``length`` bytes of the text from ``offset`` on."""
        starts = [frame.text_offset for frame in self.frames]
        first = bisect.bisect_right(starts, offset) - 1
        last = bisect.bisect_left(starts, offset + length)
        return self.frames[max(0, first) : last]

    def to_bytes(self) -> bytes:
        """Return the table in the form in which it is kept beside the index."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> FrameTable:
        """Read what ``to_bytes`` wrote."""
        return msgspec.msgpack.decode(data, type=cls)


class FrameWalker(io.RawIOBase):
    """The text of a whole file, read once from start to end; notes where frames begin.

    Raises ``CorruptDataError`` where the file is damaged or ends inside a frame; what was
    read before is good, and the last frame of ``table`` is then the readable part of it.
    """

    def __init__(self, open_source: Callable[[], BinaryIO]) -> None:
        self._texts = self._walk(open_source)
        self._pending = memoryview(b"")
        self._frames: list[Frame] = []

    @property
    def table(self) -> FrameTable:
        """The frames seen so far."""
        return FrameTable(tuple(self._frames))

    def number_at(self, offset: int) -> int:
        """Return the number of the frame that holds the byte at ``offset`` of the text read."""
        return bisect.bisect_right(
            self._frames, offset, key=lambda frame: frame.text_offset + frame.text_length
        )

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read some text; 0 at the end."""
        while not self._pending:
            text = next(self._texts, None)
            if text is None:
                return 0
            self._pending = memoryview(text)
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._pending))
        view[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def _walk(self, open_source: Callable[[], BinaryIO]) -> Iterator[bytes]:
        with open_source() as source:
            yield from self._walk_frames(source)

    def _walk_frames(self, source: BinaryIO) -> Iterator[bytes]:
        start = text_start = 0
        rest = source.read(READ_BYTES)
        while rest:
            frame = _OpenFrame(start, text_start)
            try:
                yield from frame.read(rest, source)
            finally:
                if frame.text_length:
                    self._frames.append(frame.seen())
            start, text_start = start + frame.length, text_start + frame.text_length
            rest = frame.after or source.read(READ_BYTES)


class _OpenFrame:
    """One frame while it is read; what was read of it before an error remains usable."""

    def __init__(self, start: int, text_start: int) -> None:
        self._start = start
        self._text_start = text_start
        self.length = self.text_length = 0
        self.after = b""

    def read(self, data: bytes, source: BinaryIO) -> Iterator[bytes]:
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        while not decompressor.eof:
            if not data:
                raise CorruptDataError(
                    f"it ends inside the frame that starts at byte {self._start}"
                )
            piece, data = data[:PIECE_BYTES], data[PIECE_BYTES:]
            text = _decompress(decompressor, piece, self._start)
            self.length += len(piece) - len(decompressor.unused_data)
            self.text_length += len(text)
            yield text
            data = data if data or decompressor.eof else source.read(READ_BYTES)
        self.after = decompressor.unused_data + data

    def seen(self) -> Frame:
        return Frame(self._start, self.length, self._text_start, self.text_length)


def _decompress(decompressor: zstandard.ZstdDecompressionObj, data: bytes, at: int) -> bytes:
    try:
        return decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise CorruptDataError(f"the frame that starts at byte {at} is damaged: {error}") from error


def frame_text(data: bytes, frame: Frame) -> bytes:
    """Return the whole text of one frame.

    Raises:
        CorruptDataError: the bytes are not the frame that was indexed.
    """
    text = _decompress(zstandard.ZstdDecompressor().decompressobj(), data, frame.offset)
    if len(text) != frame.text_length:
        raise CorruptDataError(
            f"the frame at byte {frame.offset} holds {len(text)} bytes of text, not the "
            f"{frame.text_length} that were indexed; index the dataset again"
        )
    return text


def part_of_frame(source: BinaryIO, start: int, length: int) -> bytes:
    """Return a part of a frame too large to be kept whole, decompressing from its start."""
    with zstandard.ZstdDecompressor().stream_reader(source) as reader:
        while start > 0:
            skipped = len(reader.read(min(start, 1 << 20)))
            if not skipped:
                break
            start -= skipped
        return reader.read(length)
