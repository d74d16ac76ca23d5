"""Ranges of files as they are without their compression, whatever that is."""

from __future__ import annotations

import threading
from contextlib import suppress

from headrace.core.errors import CorruptDataError
from headrace.dataset.cache import BoundedCache, CacheStatistics
from headrace.dataset.gziptext import GzipText
from headrace.dataset.side import SideFiles
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


class Uncompressed:
    """The content of files that are plain, gzip (``.gz``) or Zstandard (``.zst``). Thread-safe."""

    def __init__(self, storage: Storage, side: SideFiles, cache_bytes: int) -> None:
        self._storage = storage
        self._side = side
        self._largest_frame = cache_bytes // 2
        self._gzips: BoundedCache[_LockedGzip] = BoundedCache(OPEN_GZIP_FILES, lambda _: 1)
        self._tables: BoundedCache[FrameTable] = BoundedCache(FRAME_TABLES, lambda _: 1)
        self._frames: BoundedCache[bytes] = BoundedCache(cache_bytes, len)

    def read(self, file: FileInfo, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of a file's content from ``offset`` on.

        Raises:
            CorruptDataError: the compressed file is damaged there.
            StorageError: the file cannot be read.
        """
        ending = file.path.lower().rpartition(".")[2]
        if ending == "gz":
            return self._gzips.get(file, lambda: self._open_gzip(file)).read(offset, length)
        if ending == "zst":
            return self._from_frames(file, offset, length)
        return self._storage.read(file.path, offset, length)

    def statistics(self) -> CacheStatistics:
        """Return what the cache of Zstandard frames did."""
        return self._frames.statistics()

    def close(self) -> None:
        """Forget what is kept."""
        for cache in (self._gzips, self._tables, self._frames):
            cache.clear()

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


class _LockedGzip:
    """One decompressor, used by one thread at a time."""

    def __init__(self, text: GzipText) -> None:
        self._text = text
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            return self._text.read(offset, length)
