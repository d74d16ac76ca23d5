"""Events of a modelled job, as a trace of it would hold them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from headrace.trace.events import Kind, Phase, arrow_schema

EPOCH_S = 1.7e9
"""The moment at which a modelled job begins [s since 1970]."""


class Row(NamedTuple):
    """One event; the fields are those of :class:`headrace.trace.events.Event`."""

    kind: Kind
    begin_s: float
    end_s: float
    rank: int
    host: str
    step: int | None = None
    bytes: int | None = None
    file: str | None = None
    offset: int | None = None
    queue_s: float | None = None
    is_write: bool | None = None
    phase: Phase = Phase.ITERATION
    duration_s: float | None = None
    """Where it is not the time from begin to end: parts of samples, summed [s]."""

    count: int | None = None
    counts: tuple[tuple[str, int], ...] | None = None


def batch_of_rows(job: str, rows: list[Row]) -> pa.RecordBatch:
    """Return the rows as a batch of the schema."""
    schema = arrow_schema()
    told = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    spans = zip(told["begin_s"], told["end_s"], told["duration_s"], strict=True)
    columns = {
        **{name: told[name] for name in Row._fields if name in schema.names},
        "begin_ns": [_ns(EPOCH_S + begin) for begin in told["begin_s"]],
        "duration_ns": [_ns(end - begin if took is None else took) for begin, end, took in spans],
        "job": [job] * len(rows),
        "queue_ns": [None if queue is None else _ns(queue) for queue in told["queue_s"]],
    }
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
