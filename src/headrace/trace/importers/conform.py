"""Gives events that headrace stored the columns of today, whichever version stored them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headrace.core.errors import CorruptDataError
from headrace.trace.events import SCHEMA_KEY, SCHEMA_VERSION, arrow_schema


def require_version(schema: pa.Schema, path: Path) -> None:
    """Return if events of a schema can be read.

    Raises:
        CorruptDataError: they cannot.
    """
    version = (schema.metadata or {}).get(SCHEMA_KEY, b"").decode(errors="replace")
    if version != SCHEMA_VERSION:
        raise CorruptDataError(
            f"{path} holds events of version {version or 'none'}, this headrace reads version "
            f"{SCHEMA_VERSION}; read it with the headrace that wrote it"
        )


def conformed(batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    """Return a batch with exactly the columns of the schema.

    Columns that an earlier headrace did not have are null, those that a later one added are left
    out.

    Raises:
        CorruptDataError: a column is of another type.
    """
    schema = arrow_schema()
    if batch.schema.equals(schema):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    columns = [_column(batch, field, path) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, path: Path) -> pa.Array:
    place = batch.schema.get_field_index(field.name)
    if place < 0 and field.nullable:
        return pa.nulls(batch.num_rows, field.type)
    try:
        column = batch.column(place).cast(field.type)
    except (pa.ArrowException, IndexError) as error:
        raise CorruptDataError(
            f"{path}: its column {field.name} is not of {field.type}; it is no trace of events"
        ) from error
    if column.null_count and not field.nullable:
        raise CorruptDataError(f"{path}: its column {field.name} has gaps; every event has one")
    return column
