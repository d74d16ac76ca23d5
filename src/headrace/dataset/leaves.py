"""Columns of tables by their dotted path."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc


def require_distinct(schema: pa.Schema) -> None:
    """Check that columns can be told apart.

    Raises:
        ValueError: two have the same name, or one has none that can be read.
    """
    name, count = max(Counter(schema.names).items(), key=lambda item: item[1], default=("", 0))
    if count > 1:
        raise ValueError(f"{count} columns are called {name!r}")


def leaf_column(batch: pa.RecordBatch | pa.Table, path: str) -> pa.Array:
    """Return the values at a dotted path of a column, in one array."""
    name, _, leaf = path.rpartition(".") if path not in batch.schema.names else (path, "", "")
    column = batch.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.struct_field(column, leaf) if leaf else column
