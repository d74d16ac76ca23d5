"""Reads a trace by an importer, and holds what comes to the schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headrace.trace.events import arrow_schema
from headrace.trace.importer import Importer, Notes


def read_by(importer: Importer, path: Path, notes: Notes | None = None) -> pa.Table:
    """Return the events of a file or directory, all of whose bytes have to be told as read."""
    seen: list[int] = []
    batches = importer.read(path, notes or Notes(), seen.append)
    table = pa.Table.from_batches(batches, arrow_schema())
    files = path.rglob("*") if path.is_dir() else [path]
    assert sum(seen) == sum(file.stat().st_size for file in files)
    table.validate(full=True)
    return table
