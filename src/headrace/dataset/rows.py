"""The index's columns, and how samples become rows of them.

One row is one sample; rows stand in path order, inside a file in the file's own order.
The columns are part of the file format; ``SCHEMA_VERSION`` changes with them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataset.location import SampleLocation

SCHEMA_VERSION = 1

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
)
"""Columns that the digest covers: which samples there are and where each byte is. Left out
is what may differ between copies of the same dataset: modification stamps, and what one
version of a decoder library reads from a header."""

BATCH_ROWS = 65_536
"""Rows that are held as Python values before they become Arrow [rows]."""

_PLAIN = tuple(
    name
    for name in SCHEMA.names
    if name not in ("fields", "member_offsets", "member_lengths", "keyframes")
)


class RowBuilder:
    """Collects samples into Arrow tables without keeping an object per sample."""

    def __init__(self) -> None:
        self._batches: list[pa.Table] = []
        self._layouts: dict[tuple[tuple[str, str], ...], str] = {}
        self._clear()

    def append(self, location: SampleLocation) -> None:
        """Add one row."""
        columns = self._columns
        for name in _PLAIN:
            columns[name].append(getattr(location, name))
        members = location.members
        columns["fields"].append(self._layout(tuple((m.field, m.name) for m in members)))
        columns["member_offsets"].append([m.offset for m in members])
        columns["member_lengths"].append([m.length for m in members])
        columns["keyframes"].append(location.keyframes)
        if len(columns["key"]) >= BATCH_ROWS:
            self._flush()

    def finish(self) -> pa.Table:
        """Return all rows as one table and forget them."""
        self._flush()
        batches, self._batches = self._batches, []
        return pa.concat_tables(batches) if batches else SCHEMA.empty_table()

    def _clear(self) -> None:
        self._columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}

    def _flush(self) -> None:
        if self._columns["key"]:
            arrays = [pa.array(self._columns[f.name], type=f.type) for f in SCHEMA]
            self._batches.append(pa.Table.from_arrays(arrays, schema=SCHEMA))
            self._clear()

    def _layout(self, pairs: tuple[tuple[str, str], ...]) -> str:
        if pairs not in self._layouts:
            self._layouts[pairs] = msgspec.json.encode(pairs).decode()
        return self._layouts[pairs]


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
