"""The index's columns, and how samples become rows of them.

One row is one sample; rows stand in path order, inside a file in the file's own order.
The columns are part of the file format; ``SCHEMA_VERSION`` changes with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataset.location import SampleLocation

SCHEMA_VERSION = 2

_NAMES = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("key", pa.large_string(), nullable=False),
        pa.field("kind", _NAMES, nullable=False),
        pa.field("container", _NAMES, nullable=False),
        pa.field("file", _NAMES, nullable=False),
        pa.field("file_size", pa.int64(), nullable=False),
        pa.field("file_version", pa.large_string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        # JSON [[field, name], …]: few distinct values, so the pairs are not repeated per row.
        pa.field("fields", _NAMES, nullable=False),
        pa.field("member_offsets", pa.list_(pa.int64()), nullable=False),
        pa.field("member_lengths", pa.list_(pa.int64()), nullable=False),
        pa.field("row", pa.int32(), nullable=False),
        pa.field("block", pa.int32(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("text", pa.large_string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("duration_s", pa.float64()),
        pa.field("frames", pa.int32()),
        pa.field("keyframes", pa.list_(pa.float64()), nullable=False),
        pa.field("cost_s", pa.float64(), nullable=False),
        pa.field("broken", pa.large_string()),
    ]
)

PLACE_COLUMNS = (
    "key",
    "kind",
    "container",
    "file",
    "file_size",
    "offset",
    "length",
    "fields",
    "member_offsets",
    "member_lengths",
    "row",
    "block",
    "label",
    "text",
)
"""Columns that the digest covers: which samples there are and where each byte is. Left out
is what may differ between copies of the same dataset: modification stamps, and what one
version of a decoder library reads from a header."""

BATCH_ROWS = 65_536
"""Rows that are held as Python values before they become Arrow [rows]."""

BATCH_MEMBERS = 1_000_000
"""Members that they have at most, but for those of the last row."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Many samples at once."""

    table: pa.Table
    """With the columns of ``SCHEMA``."""


class RowBuilder:
    """Collects samples into Arrow tables; keeps few of them as objects."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._batch: list[SampleLocation] = []
        self._members = 0

    def append(self, location: SampleLocation) -> None:
        """Add one row."""
        self._batch.append(location)
        self._members += len(location.members)
        if len(self._batch) >= BATCH_ROWS or self._members >= BATCH_MEMBERS:
            self._flush()

    def extend(self, rows: Rows) -> None:
        """Add many rows."""
        self._flush()
        self._tables.append(rows.table)

    def finish(self) -> pa.Table:
        """Return all rows as one table and forget them."""
        self._flush()
        tables, self._tables = self._tables, []
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def _flush(self) -> None:
        batch, self._batch, self._members = self._batch, [], 0
        if batch:
            arrays = [pa.array(_column(f.name, batch), type=f.type) for f in SCHEMA]
            self._tables.append(pa.Table.from_arrays(arrays, schema=SCHEMA))


def rows_of(columns: Mapping[str, pa.Array], count: int) -> Rows:
    """Return ``count`` rows of the index; columns that are not given are null, or empty lists."""
    arrays = [columns.get(f.name, _absent(f.type, count)).cast(f.type) for f in SCHEMA]
    return Rows(pa.Table.from_arrays(arrays, schema=SCHEMA))


def _absent(column_type: pa.DataType, count: int) -> pa.Array:
    empty = pa.scalar([] if pa.types.is_list(column_type) else None, column_type)
    return pa.repeat(empty, count)


def _column(name: str, batch: Sequence[SampleLocation]) -> list[object]:
    if name == "fields":
        return [_layout(tuple((m.field, m.name) for m in row.members)) for row in batch]
    if name == "member_offsets":
        return [[m.offset for m in row.members] for row in batch]
    if name == "member_lengths":
        return [[m.length for m in row.members] for row in batch]
    return list(map(attrgetter(name), batch))


@lru_cache(maxsize=1024)
def _layout(pairs: tuple[tuple[str, str], ...]) -> str:
    return msgspec.json.encode(pairs).decode()


def canonical_buffers(column: pa.Array) -> Iterator[memoryview]:
    """Yield a column's values as bytes that do not depend on how Arrow happens to hold them."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type):
        yield memoryview(column.value_lengths().to_numpy())
        yield from canonical_buffers(column.flatten())
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        yield from _text_buffers(column.cast(pa.large_string()))
    else:
        yield memoryview(column.is_valid().to_numpy(zero_copy_only=False))
        yield memoryview(column.fill_null(0).to_numpy())


def _text_buffers(column: pa.Array) -> Iterator[memoryview]:
    yield memoryview(pc.binary_length(column).fill_null(-1).to_numpy())
    _, bounds, text = column.buffers()
    if len(column) and text is not None:
        first, last = column.offset, column.offset + len(column)
        starts = memoryview(bounds).cast("B").cast("q")
        yield memoryview(text)[starts[first] : starts[last]]
