"""How a careful user reads HDFS with ``FsspecReader`` today: hdfs-native, with a cache of fsspec.

hdfs-native opens files that lack ``readinto``, which ``torch.load`` calls; as they are, no
checkpoint can be loaded from them. fsspec's own buffered file is the usual way around, and brings
its caches along. ``simplecache::`` is another: it copies whole files to the local disk first.
"""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.spec import AbstractBufferedFile
from hdfs_native.fsspec import HdfsFileSystem


class CachedFile(AbstractBufferedFile):
    """A file of HDFS, open for reading through a cache."""

    def __init__(self, fs: CachedHdfs, path: str, **options: Any) -> None:
        self._reader = fs.client.read(path)
        super().__init__(fs, path, size=len(self._reader), **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self.size)  # hdfs-native panics beyond the end, where caches ask as well
        found: bytes = self._reader.read_range(start, end - start)
        return found


class CachedHdfs(HdfsFileSystem):
    """HDFS whose files are read through one of fsspec's caches.

    Args:
        host: The NameNode.
        port: Its port.
        cache: ``readahead``, ``blockcache``, ``background`` …, as fsspec calls them.
        block_bytes: How much is read at once.
        options: Of hdfs-native.
    """

    protocol = "hdfs"

    def __init__(
        self,
        host: str,
        port: int,
        cache: str = "readahead",
        block_bytes: int = AbstractBufferedFile.DEFAULT_BLOCK_SIZE,
        **options: Any,
    ) -> None:
        super().__init__(host, port, **options)
        self._cache = cache
        self._block_bytes = block_bytes

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            return super()._open(path, mode, **options)
        return CachedFile(
            self,
            self._strip_protocol(path),
            block_size=self._block_bytes,
            cache_type=self._cache,
        )


fsspec.register_implementation("hdfs", CachedHdfs, clobber=True)
