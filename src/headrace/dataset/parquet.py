"""Scans Parquet files: a row with an image, a video, a sound or a text is a sample.

Media are structs with a binary ``bytes`` as Hugging Face writes them, or binary columns: one that
is called like a medium, else the first.
The text is the column named by ``text_field``, else ``text`` or ``caption``, else, where
there is no medium, the first column of strings. A column of integers named ``label``,
``cls`` or ``class`` is the label. Other columns are left out.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import HeadraceError
from headrace.dataset.cost import text_cost
from headrace.dataset.leaves import leaf_column
from headrace.dataset.location import Kind, Member, SampleLocation
from headrace.dataset.media import LABEL_NAMES, MEDIA_NAMES, TEXT_NAMES, leading_kind
from headrace.dataset.probe import Headers, probe
from headrace.dataset.scan import Scan, ScanSource

BATCH_ROWS = 64
"""Rows whose media are in memory at once while headers are read [rows]."""


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """One column that becomes a field of the record."""

    field: str
    path: str
    """Dotted path of the leaf, as Parquet names it."""


def scan_parquet(source: ScanSource) -> Scan:
    """Yield the rows of a Parquet file."""
    try:
        with source.open() as stream:
            file = pq.ParquetFile(stream)
            columns = choose_columns(file.schema_arrow, source.options.text_field)
            if not columns:
                yield source.broken(_no_columns(file.schema_arrow))
                return
            yield from _rows(source, file, columns)
    except HeadraceError as error:
        yield source.broken(str(error))
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        yield source.broken(f"not a Parquet file that can be read: {str(error).strip()}")


def choose_columns(schema: pa.Schema, text_field: str) -> tuple[FieldColumn, ...]:
    """Return the columns that make a record, at most one for each field."""
    chosen: dict[str, FieldColumn] = {}
    for column in sorted(schema, key=_may_be_no_medium):
        for field, path in (_medium(column), _label(column), _text(column, text_field)):
            if field and field not in chosen:
                chosen[field] = FieldColumn(field, path)
    if text_field in schema.names and _is_text(schema.field(text_field).type):
        chosen["text"] = FieldColumn("text", text_field)
    if not set(chosen) - {"label"}:
        chosen |= _first_text(schema)
    return tuple(chosen.values()) if set(chosen) - {"label"} else ()


def _medium(column: pa.Field) -> tuple[str, str]:
    kind = MEDIA_NAMES.get(column.name.lower(), "image")
    if _is_binary(column.type):
        return kind, column.name
    if _has_bytes(column.type):
        return kind, f"{column.name}.bytes"
    return "", ""


def _may_be_no_medium(column: pa.Field) -> bool:
    """Whether a binary column may be a hash or a key as well: others are taken before it."""
    return not _has_bytes(column.type) and column.name.lower() not in MEDIA_NAMES


def _label(column: pa.Field) -> tuple[str, str]:
    named = column.name.lower() in LABEL_NAMES and pa.types.is_integer(column.type)
    return ("label", column.name) if named else ("", "")


def _text(column: pa.Field, text_field: str) -> tuple[str, str]:
    named = column.name in (text_field, *TEXT_NAMES) and _is_text(column.type)
    return ("text", column.name) if named else ("", "")


def _is_text(column_type: pa.DataType) -> bool:
    return _values_of(column_type) in (pa.string(), pa.large_string(), pa.string_view())


def _is_binary(column_type: pa.DataType) -> bool:
    return _values_of(column_type) in (pa.binary(), pa.large_binary(), pa.binary_view())


def _has_bytes(column_type: pa.DataType) -> bool:
    if not pa.types.is_struct(column_type):
        return False
    place = column_type.get_field_index("bytes")
    return place >= 0 and _is_binary(column_type.field(place).type)


def _values_of(column_type: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, whether or not each is stored only once."""
    return column_type.value_type if pa.types.is_dictionary(column_type) else column_type


def _first_text(schema: pa.Schema) -> dict[str, FieldColumn]:
    texts = [FieldColumn("text", column.name) for column in schema if _is_text(column.type)]
    return {"text": texts[0]} if texts else {}


def _no_columns(schema: pa.Schema) -> str:
    return (
        "no column of media (binary, or a struct with bytes) or text in it, but: "
        f"{', '.join(schema.names)}; name a column of strings by --text-field"
    )


def _rows(
    source: ScanSource, file: pq.ParquetFile, columns: tuple[FieldColumn, ...]
) -> Iterator[SampleLocation]:
    number = 0
    for block in range(file.num_row_groups):
        members = _members(file.metadata.row_group(block), columns)
        batches = file.iter_batches(
            BATCH_ROWS, row_groups=[block], columns=[c.path for c in columns], use_threads=False
        )
        row = 0
        for batch in batches:
            arrays = [leaf_column(batch, column.path) for column in columns]
            for at in range(batch.num_rows):
                values = {c.field: a[at].as_py() for c, a in zip(columns, arrays, strict=True)}
                yield _sample(source, _Row(number, block, row, values), members)
                number, row = number + 1, row + 1


def _members(group: pq.RowGroupMetaData, columns: tuple[FieldColumn, ...]) -> tuple[Member, ...]:
    chunks = {}
    for at in range(group.num_columns):
        chunk = group.column(at)
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
            start = min(start, chunk.dictionary_page_offset)
        chunks[chunk.path_in_schema] = (start, chunk.total_compressed_size)
    return tuple(
        Member(field=c.field, name=c.path, offset=chunks[c.path][0], length=chunks[c.path][1])
        for c in columns
    )


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    block: int
    row: int
    values: dict[str, object]


def _sample(source: ScanSource, row: _Row, members: tuple[Member, ...]) -> SampleLocation:
    file = source.file
    kind = leading_kind(set(row.values))
    headers = _headers(kind, row.values[kind])
    return SampleLocation(
        key=f"{file.path}#{row.number}",
        kind=kind,
        container="parquet",
        file=file.path,
        file_size=file.size,
        file_version=file.version,
        offset=members[0].offset,
        length=sum(_encoded_length(value) for value in row.values.values()),
        members=members,
        row=row.row,
        block=row.block,
        width=headers.width,
        height=headers.height,
        duration_s=headers.duration_s,
        frames=headers.frames,
        keyframes=headers.keyframes,
        cost_s=headers.cost_s,
        broken=headers.broken,
    )


def _headers(kind: Kind, value: object) -> Headers:
    if isinstance(value, bytes):
        return probe(kind, lambda: io.BytesIO(value))
    if isinstance(value, str):
        return Headers(cost_s=text_cost(len(value)))
    return Headers(broken=f"the {kind} is null in this row")


def _encoded_length(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    return 0 if value is None else len(str(value).encode())
