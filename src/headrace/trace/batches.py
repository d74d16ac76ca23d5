"""Batches of a useful size out of whatever a source has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def joined(batches: Iterable[pa.RecordBatch], most_events: int) -> Iterator[pa.RecordBatch]:
    """Yield the same events in fewer batches.

    Args:
        batches: Of one schema.
        most_events: Of a batch that is joined from others.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if held and rows + batch.num_rows > most_events:
            yield _one(held)
            held, rows = [], 0
        held.append(batch)
        rows += batch.num_rows
    if rows:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
