"""Columns of Parquet data by their dotted path."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def leaf_column(batch: pa.RecordBatch | pa.Table, path: str) -> pa.Array:
    """Return the values at a dotted path of a column, in one array."""
    name, _, leaf = path.partition(".") if path not in batch.schema.names else (path, "", "")
    column = batch.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.struct_field(column, leaf) if leaf else column
