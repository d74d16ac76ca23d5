"""Reads single rows of Parquet files; footers and decoded row groups are kept for a while."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import CorruptSampleError
from headrace.dataset.cache import BoundedCache, CacheStatistics
from headrace.dataset.leaves import leaf_column
from headrace.dataset.location import SampleLocation
from headrace.storage.port import Storage
from headrace.storage.rangefile import RangeFile

FOOTERS = 1024
"""Footers that are kept [files]."""

Columns = dict[str, pa.Array]
"""Path of a column → its values in one row group."""


class RowGroups:
    """The rows of all Parquet files of a dataset. Thread-safe."""

    def __init__(self, storage: Storage, cache_bytes: int) -> None:
        self._storage = storage
        self._footers: BoundedCache[pq.FileMetaData] = BoundedCache(FOOTERS, lambda _: 1)
        self._groups: BoundedCache[Columns] = BoundedCache(cache_bytes, _decoded_bytes)

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the encoded fields of one row; numbers are decimal digits.

        Raises:
            CorruptSampleError: a field is null, or the row group cannot be decoded.
        """
        key = (location.file, location.file_size, location.file_version, location.block)
        columns = self._groups.get(key, lambda: self._decode(location))
        return {
            member.field: _encoded(
                columns[member.name][location.row].as_py(), location, member.name
            )
            for member in location.members
        }

    def statistics(self) -> CacheStatistics:
        """Return what the cache of row groups did."""
        return self._groups.statistics()

    def close(self) -> None:
        """Forget what is kept."""
        self._footers.clear()
        self._groups.clear()

    def _decode(self, location: SampleLocation) -> Columns:
        paths = [member.name for member in location.members]
        try:
            with RangeFile(self._storage, location.file, 0, location.file_size) as stream:
                file = pq.ParquetFile(stream, metadata=self._footer(location))
                table = file.read_row_group(location.block, columns=paths, use_threads=False)
            return {path: leaf_column(table, path) for path in paths}
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise CorruptSampleError(
                f"row group {location.block} of {location.file} cannot be decoded: {error}"
            ) from error

    def _footer(self, location: SampleLocation) -> pq.FileMetaData:
        key = (location.file, location.file_size, location.file_version)
        return self._footers.get(key, lambda: self._read_footer(location))

    def _read_footer(self, location: SampleLocation) -> pq.FileMetaData:
        with RangeFile(self._storage, location.file, 0, location.file_size) as stream:
            return pq.read_metadata(stream)


def _decoded_bytes(columns: Columns) -> int:
    return sum(int(column.nbytes) for column in columns.values())


def _encoded(value: object, location: SampleLocation, column: str) -> bytes:
    if value is None:
        raise CorruptSampleError(f"{location.key}: column {column!r} is null in this row")
    return value if isinstance(value, bytes) else str(value).encode()
