"""Events one by one, as exports to text formats write them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.trace.events import COLUMNS, Event


def events_of(batch: pa.RecordBatch) -> Iterator[Event]:
    """Yield the events of a batch of the schema."""
    columns = [batch.column(name).to_pylist() for name in COLUMNS]
    for row in zip(*columns, strict=True):
        fields = dict(zip(COLUMNS, row, strict=True))
        counts = fields["counts"]
        fields["counts"] = None if counts is None else dict(counts)
        yield Event(**fields)


def details(event: Event, *, but: frozenset[str]) -> dict[str, str | int | bool]:
    """Return what an event says, but for some columns; counts by their own names."""
    said = {
        name: value
        for name in COLUMNS
        if name not in but and (value := getattr(event, name)) is not None and name != "counts"
    }
    return said | (event.counts or {})
