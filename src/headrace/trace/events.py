"""What is recorded of a job: one schema for everything that takes time, from any source.

An event is one thing that took time. What a source cannot tell is null, never zero. Columns are
those of :class:`Event`, in its order; they are only ever added at the end, and a new meaning of an
old one raises :data:`SCHEMA_VERSION`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.trace.arrays import COUNTS, array_of, counts, numbers, repeated

SCHEMA_VERSION = "1"
SCHEMA_KEY = b"headrace.events"
"""Under which a file's metadata holds the version."""


class Phase(StrEnum):
    """What a job was at."""

    INITIALISATION = "initialisation"
    """All ranks load a checkpoint, before the first step."""

    ITERATION = "iteration"
    """It trains; checkpoints are saved now and then."""

    EVALUATION = "evaluation"
    """A saved checkpoint is loaded elsewhere and judged."""


class Kind(StrEnum):
    """What took the time."""

    STEP = "step"
    """One step of the training loop, from one request for a batch to the next."""

    WAIT = "wait"
    """The loop stood still for its batch: the stall."""

    LOAD = "load"
    """A batch, or a sample, was prepared, from the first work on it to the last. In the
    background, it overlaps with steps."""

    METADATA = "metadata"
    """Part of a load: where bytes lie was found out (look up, list, open, stat)."""

    RETRIEVAL = "retrieval"
    """Part of a load: bytes were read."""

    TRANSFORMATION = "transformation"
    """Part of a load: samples were decoded and changed."""

    OVERHEAD = "overhead"
    """Part of a load that is none of these: queues, sockets, assembling."""

    REQUEST = "request"
    """One request to storage for some bytes of a file, read or written: the smallest unit."""

    CHECKPOINT_READ = "checkpoint_read"
    CHECKPOINT_SAVE = "checkpoint_save"
    LOGITS_WRITE = "logits_write"
    BARRIER = "barrier"
    """A rank waited for others."""

    COMPUTE = "compute"
    """The accelerator, or the training code on it, was at work."""

    CALL = "call"
    """A function that is none of these."""


MOVE_CUT = "move cut of "
"""Begins the name of a ``call``, and the kind of samples that agents run other ops on ends it."""

PARTS = (Kind.METADATA, Kind.RETRIEVAL, Kind.TRANSFORMATION, Kind.OVERHEAD)
"""Of a load."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that took time."""

    kind: str
    """One of :class:`Kind`."""

    begin_ns: int
    """[ns since 1970, UTC], or since an arbitrary moment where the source knows no other."""

    duration_ns: int | None = None
    """[ns]; null where the source tells only when it began."""

    name: str | None = None
    """Of the function, the operation, the request's kind."""

    job: str | None = None
    host: str | None = None
    rank: int | None = None
    pid: int | None = None
    tid: int | None = None
    phase: str | None = None
    """One of :class:`Phase`."""

    step: int | None = None
    epoch: int | None = None
    sample: str | None = None
    """Id of the sample."""

    file: str | None = None
    """URL or path."""

    offset: int | None = None
    """Of the first byte in the file [bytes]."""

    bytes: int | None = None
    """Read, written, or made [bytes]."""

    replica: str | None = None
    """The node that served it."""

    round_trips: int | None = None
    queue_ns: int | None = None
    """Part of the duration in which it waited for its turn [ns]."""

    cpu_ns: int | None = None
    """CPU it took [ns]."""

    is_write: bool | None = None
    count: int | None = None
    """Of operations that the event stands for; their times may have overlapped, the duration is
    their sum. Null: the event is one operation."""

    counts: dict[str, int] | None = None
    """Further numbers, by name with its unit: ``samples``, ``samples_raw``, ``queue_bytes``."""


COLUMNS: tuple[str, ...] = Event.__struct_fields__

_ARROW: dict[object, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    bool: pa.bool_(),
    dict[str, int]: COUNTS,
}
_REQUIRED = ("kind", "begin_ns")


@cache
def arrow_schema() -> pa.Schema:
    """Return the columns of a trace of events; units are in the names."""
    hints = typing.get_type_hints(Event)
    columns = [
        pa.field(name, _ARROW[_without_none(hints[name])], nullable=name not in _REQUIRED)
        for name in COLUMNS
    ]
    return pa.schema(columns, metadata={SCHEMA_KEY: SCHEMA_VERSION})


def batch_of(events: Iterable[Event]) -> pa.RecordBatch:
    """Return events as a batch of the schema.

    Raises:
        TypeError, AttributeError: a value is of another type than its column.
        UnicodeEncodeError: a text is no Unicode.
    """
    schema = arrow_schema()
    rows = [msgspec.structs.astuple(event) for event in events]
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    arrays = [_made(column, field) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _made(column: Sequence[object], field: pa.Field) -> pa.Array:
    made = array_of(column, field.type)
    if made.null_count and not field.nullable:
        raise TypeError(f"an event has no {field.name}")
    return made


def batch_of_columns(events: int, columns: Mapping[str, object]) -> pa.RecordBatch:
    """Return events as a batch of the schema, made of whole columns; the others are null.

    Args:
        events: How many.
        columns: By name, an Arrow array or an int64 array of all events' values, or one value
            for all of them.
    """
    schema = arrow_schema()
    arrays = [_column(columns.get(field.name), field.type, events) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def counts_column(names: Sequence[str], values: npt.NDArray[np.int64]) -> pa.MapArray:
    """Return a column ``counts`` that has the same names for all events.

    Args:
        names: Of the numbers.
        values: int64 [events, names].
    """
    events, width = values.shape
    places = numbers(np.tile(np.arange(width), events))
    ends = np.arange(1, events + 1) * width
    return counts(array_of(names, pa.string()).take(places), numbers(values.reshape(-1)), ends)


def _column(value: object, kind: pa.DataType, events: int) -> pa.Array:
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, np.ndarray):
        return numbers(value)
    return repeated(value, kind, events)


def _without_none(hint: object) -> object:
    if isinstance(hint, types.UnionType):
        (hint,) = (one for one in hint.__args__ if one is not type(None))
    return hint
