"""Writes events as one Parquet file, sorted by when they began: small, and quick to read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pyarrow as pa

from headrace.trace.batches import joined
from headrace.trace.importers.eventparquet import ABOUT_KEY, About
from headrace.trace.parquetfile import EventParquetWriter
from headrace.trace.sorting import sorted_events

GROUP_EVENTS = 1 << 18
"""Events of a row group: enough to compress well, few enough to hold while they are written."""


def export_parquet(
    batches: Iterable[pa.RecordBatch], path: Path, about: Callable[[], About] = About
) -> int:
    """Write all events and return how many there were.

    Args:
        batches: Of events.
        path: Of the file; beside it there must be space to sort more than half a million.
        about: Returns what the file says of them; asked when all were read.

    Raises:
        StorageError: the file cannot be written.
    """
    with EventParquetWriter(path) as writer:
        for group in joined(sorted_events(batches, path.parent), GROUP_EVENTS):
            writer.write(group)
        writer.describe({ABOUT_KEY: msgspec.json.encode(about())})
        writer.commit()
    return writer.events
