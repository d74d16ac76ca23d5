"""Compressed MDS shards: decompressed whole, because nothing less can be."""

from __future__ import annotations

from headrace.core.errors import CorruptDataError, CorruptSampleError
from headrace.dataset.cache import BoundedCache, CacheStatistics
from headrace.dataset.fields import by_field
from headrace.dataset.location import SampleLocation
from headrace.storage.port import FileInfo, Storage

SHARD_BYTES = 256 * 1024 * 1024
"""Largest content of a compressed shard [bytes]."""

_STREAM_CODECS = {"zstd": "zstd", "gz": "gzip", "br": "brotli", "bz2": "bz2"}
_PIECE_BYTES = 1024 * 1024
_LENGTH_BYTES = 10


class Shards:
    """The samples of all compressed shards of a dataset. Thread-safe."""

    def __init__(self, storage: Storage, cache_bytes: int) -> None:
        self._storage = storage
        self._kept: BoundedCache[bytes] = BoundedCache(cache_bytes, len)

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the encoded fields of one sample.

        Raises:
            CorruptSampleError: the shard is damaged.
        """
        file = location.file_info()
        try:
            shard = self._kept.get(file, lambda: self._decompressed(file))
        except CorruptDataError as error:
            raise CorruptSampleError(f"{location.key}: {error}") from error
        members = location.members
        return by_field(members, [shard[m.offset : m.offset + m.length] for m in members])

    def statistics(self) -> CacheStatistics:
        """Return what the cache of shards did."""
        return self._kept.statistics()

    def close(self) -> None:
        """Forget what is kept."""
        self._kept.clear()

    def _decompressed(self, file: FileInfo) -> bytes:
        return decompressed(file.path, self._storage.read(file.path, 0, file.size))


def decompressed(path: str, data: bytes) -> bytes:
    """Return the content of a compressed shard; its ending names the compression.

    Raises:
        CorruptDataError: it is damaged, or larger than ``SHARD_BYTES``.
    """
    import pyarrow as pa  # half of a worker's start-up time

    codec = path.lower().rpartition(".")[2]
    try:
        if codec == "snappy":
            return bytes(pa.Codec("snappy").decompress(data, within_limit(_snappy_length(data))))
        return _streamed(data, _STREAM_CODECS[codec])
    except (OSError, ValueError) as error:  # pa.ArrowException is one of them, or memory
        raise CorruptDataError(f"the compressed shard is damaged: {error}") from error


def _streamed(data: bytes, codec: str) -> bytes:
    import pyarrow as pa

    content = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while piece := stream.read(_PIECE_BYTES):
            within_limit(len(content) + len(piece))
            content += piece
    return bytes(content)


def _snappy_length(data: bytes) -> int:
    """Return the length that a block of Snappy says it has: base-128 digits, lowest first."""
    length = 0
    for count, octet in enumerate(data[:_LENGTH_BYTES]):
        length |= (octet & 0x7F) << (7 * count)
        if octet < 0x80:
            return length
    raise ValueError("its length is cut off")


def within_limit(length: int) -> int:
    """Return a length of a shard's content.

    Raises:
        CorruptDataError: it is larger than ``SHARD_BYTES``.
    """
    if length > SHARD_BYTES:
        raise CorruptDataError(
            f"the compressed shard holds more than {SHARD_BYTES >> 20} MiB; write it with a "
            "smaller size_limit, or without compression"
        )
    return length
