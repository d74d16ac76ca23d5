"""Reads single rows of Parquet files and of compressed Arrow files.

Row groups and record batches are decoded as a whole, because nothing less can be, and kept for a
while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import CorruptDataError, CorruptSampleError
from headrace.core.numbered import split_number
from headrace.dataset.arrowbatches import ArrowHead, read_batch, read_head
from headrace.dataset.cache import BoundedCache, CacheStatistics
from headrace.dataset.documentline import CONVERSATION
from headrace.dataset.interleaved import joined
from headrace.dataset.leaves import leaf_column
from headrace.dataset.location import Container, Member, SampleLocation
from headrace.dataset.parquetgroups import group_batches
from headrace.dataset.turns import turns_as
from headrace.storage.port import Storage
from headrace.storage.rangefile import RangeFile

BATCH_ROWS = 256
"""Rows of a row group that are decoded at once [rows]."""

HEADS = 1024
"""Footers and schemas that are kept [files]."""

Columns = dict[str, pa.Array]
"""Path of a column → its values in one block."""

_Table: TypeAlias = pa.Table | pa.RecordBatch


class RowGroups:
    """The rows of all Parquet and compressed Arrow files of a dataset. Thread-safe."""

    def __init__(self, storage: Storage, cache_bytes: int) -> None:
        self._storage = storage
        self._footers: BoundedCache[pq.FileMetaData] = BoundedCache(HEADS, lambda _: 1)
        self._schemas: BoundedCache[ArrowHead] = BoundedCache(HEADS, lambda _: 1)
        self._groups: BoundedCache[Columns] = BoundedCache(cache_bytes, _decoded_bytes)
        self._decoders: dict[Container, Callable[[SampleLocation, Sequence[str]], _Table]] = {
            "parquet": self._row_group,
            "arrow": self._record_batch,
        }

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the encoded fields of one row; numbers are decimal digits.

        Raises:
            CorruptSampleError: a field is null, or the block cannot be decoded.
        """
        paths = tuple(dict.fromkeys(member.name for member in location.members))
        key = (location.file, location.file_size, location.file_version, location.block, paths)
        columns = self._groups.get(key, lambda: self._decode(location, paths))
        row = {path: columns[path][location.row].as_py() for path in paths}
        return {m.field: _encoded(row[m.name], location, m) for m in location.members}

    def statistics(self) -> CacheStatistics:
        """Return what the cache of row groups and record batches did."""
        return self._groups.statistics()

    def close(self) -> None:
        """Forget what is kept."""
        for cache in (self._footers, self._schemas, self._groups):
            cache.clear()

    def _decode(self, location: SampleLocation, paths: Sequence[str]) -> Columns:
        try:
            table = self._decoders[location.container](location, paths)
            return {path: leaf_column(table, path) for path in paths}
        except (pa.ArrowException, CorruptDataError, OSError, EOFError, ValueError) as error:
            raise CorruptSampleError(
                f"row group {location.block} of {location.file} cannot be decoded: {error}"
            ) from error

    def _row_group(self, location: SampleLocation, paths: Sequence[str]) -> pa.Table:
        key = (location.file, location.file_size, location.file_version)
        footer = self._footers.get(key, lambda: self._read_footer(location))
        with self._opened(location) as stream:
            file = pq.ParquetFile(stream, metadata=footer)
            return pa.Table.from_batches([*group_batches(file, location.block, paths, BATCH_ROWS)])

    def _read_footer(self, location: SampleLocation) -> pq.FileMetaData:
        with self._opened(location) as stream:
            return pq.read_metadata(stream)

    def _record_batch(self, location: SampleLocation, paths: Sequence[str]) -> pa.RecordBatch:
        key = (location.file, location.file_size, location.file_version)
        head = self._schemas.get(key, lambda: self._read_schema(location))
        place = location.members[0]
        message = self._storage.read(location.file, place.offset, place.length)
        return read_batch(head, message, paths)

    def _read_schema(self, location: SampleLocation) -> ArrowHead:
        with self._opened(location) as stream:
            return read_head(stream, location.file_size)

    def _opened(self, location: SampleLocation) -> RangeFile:
        return RangeFile(self._storage, location.file, 0, location.file_size)


def _decoded_bytes(columns: Columns) -> int:
    return sum(int(column.nbytes) for column in columns.values())


def _encoded(column: object, location: SampleLocation, member: Member) -> bytes:
    value = _value(column, member) if isinstance(column, list) else column
    if value is None:
        raise CorruptSampleError(f"{location.key}: column {member.name!r} is null in this row")
    return value if isinstance(value, bytes) else str(value).encode()


def _value(elements: list[object], member: Member) -> object:
    """Return one of the pictures in a list, or the text that is in pieces or in turns."""
    number = split_number(member.field)[1]
    if number is None and member.name == CONVERSATION:
        return turns_as(member.field, elements)
    if number is None:
        return joined(elements)  # type: ignore[arg-type] # a column of lists of strings
    element = [element for element in elements if element is not None][number]
    return element["bytes"] if isinstance(element, dict) else element
