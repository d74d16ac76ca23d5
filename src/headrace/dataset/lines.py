"""Reads single lines of JSON lines files by their place in the uncompressed text."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import lru_cache

from headrace.core.errors import CorruptDataError, CorruptSampleError
from headrace.dataset.cache import BoundedCache, CacheStatistics
from headrace.dataset.gziptext import GzipText
from headrace.dataset.location import SampleLocation
from headrace.dataset.side import SideFiles
from headrace.dataset.textline import TextLine
from headrace.dataset.zstdframes import (
    Frame,
    FrameTable,
    FrameWalker,
    frame_text,
    part_of_frame,
)
from headrace.storage.port import FileInfo, Storage
from headrace.storage.rangefile import RangeFile

OPEN_GZIP_FILES = 16
"""Decompressors with their restart points that are kept open [files]."""

FRAME_TABLES = 256
"""Tables of Zstandard frames that are kept [files]."""


class Lines:
    """The lines of all JSON lines files of a dataset. Thread-safe."""

    def __init__(self, storage: Storage, side: SideFiles, cache_bytes: int) -> None:
        self._storage = storage
        self._side = side
        self._largest_frame = cache_bytes // 2
        self._gzips: BoundedCache[_LockedGzip] = BoundedCache(OPEN_GZIP_FILES, lambda _: 1)
        self._tables: BoundedCache[FrameTable] = BoundedCache(FRAME_TABLES, lambda _: 1)
        self._frames: BoundedCache[bytes] = BoundedCache(cache_bytes, len)

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the text of one line as UTF-8, as the field ``text``.

        Raises:
            CorruptSampleError: the line holds no text, or the compressed file is damaged.
        """
        try:
            line = self._line(location)
            text = _text_line(location.members[0].name).text(line)
        except CorruptDataError as error:
            raise CorruptSampleError(f"{location.key}: {error}") from error
        return {"text": text.encode()}

    def statistics(self) -> CacheStatistics:
        """Return what the cache of Zstandard frames did."""
        return self._frames.statistics()

    def close(self) -> None:
        """Forget what is kept."""
        for cache in (self._gzips, self._tables, self._frames):
            cache.clear()

    def _line(self, location: SampleLocation) -> bytes:
        file = FileInfo(location.file, location.file_size, location.file_version)
        ending = location.file.lower().rpartition(".")[2]
        if ending == "gz":
            gzip = self._gzips.get(file, lambda: self._open_gzip(file))
            return gzip.read(location.offset, location.length)
        if ending == "zst":
            return self._from_frames(file, location.offset, location.length)
        return self._storage.read(file.path, location.offset, location.length)

    def _open_gzip(self, file: FileInfo) -> _LockedGzip:
        stream = RangeFile(self._storage, file.path, 0, file.size)
        return _LockedGzip(GzipText(stream, self._side.get(file)))

    def _from_frames(self, file: FileInfo, offset: int, length: int) -> bytes:
        table = self._tables.get(file, lambda: self._frame_table(file))
        frames = table.covering(offset, length)
        return b"".join(self._part(file, frame, offset, offset + length) for frame in frames)

    def _frame_table(self, file: FileInfo) -> FrameTable:
        kept = self._side.get(file)
        if kept is not None:
            return FrameTable.from_bytes(kept)
        walker = FrameWalker(lambda: RangeFile(self._storage, file.path, 0, file.size))
        with suppress(CorruptDataError):  # the lines before the damage are samples
            while walker.read(1 << 20):
                pass
        return walker.table

    def _part(self, file: FileInfo, frame: Frame, start: int, stop: int) -> bytes:
        first = max(0, start - frame.text_offset)
        last = min(frame.text_length, stop - frame.text_offset)
        if frame.text_length > self._largest_frame:
            stream = RangeFile(self._storage, file.path, frame.offset, frame.length)
            return part_of_frame(stream, first, last - first)
        text = self._frames.get((file, frame.offset), lambda: self._frame_text(file, frame))
        return text[first:last]

    def _frame_text(self, file: FileInfo, frame: Frame) -> bytes:
        return frame_text(self._storage.read(file.path, frame.offset, frame.length), frame)


@lru_cache(maxsize=16)
def _text_line(field: str) -> TextLine:
    """Making one takes longer than reading ten lines."""
    return TextLine(field)


class _LockedGzip:
    """One decompressor, used by one thread at a time."""

    def __init__(self, text: GzipText) -> None:
        self._text = text
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            return self._text.read(offset, length)
