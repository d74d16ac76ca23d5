"""Events of a block of steps and ranks, as columns of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import NULL, Ints, Mask
from headrace.trace.events import COLUMNS, Kind, Phase, arrow_schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One event of each rank in each step; arrays are [steps, ranks]."""

    kind: Kind
    begins: Ints
    durations: Ints
    bytes: Ints | None = None
    is_present: Mask | None = None
    """Where the event is at all; None: everywhere."""

    is_write: bool | None = None
    samples: Ints | None = None
    """Id of the sample."""

    files: Ints | None = None
    """Number of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Whose events they are."""

    job: str
    phase: Phase
    steps: Ints
    """Their numbers; :data:`NULL`: before the first one."""

    ranks: Ints
    hosts: pa.StringArray
    """Names of the hosts of these ranks."""

    steps_per_epoch: int = 0
    suffix: str = ""
    """Of files."""


def batch_of_rows(block: Block, rows: Sequence[Row]) -> pa.RecordBatch:
    """Return all rows' events, ordered by step, rank and row."""
    steps, ranks, slots = block.steps.size, block.ranks.size, len(rows)
    count = steps * ranks * slots
    step_numbers = np.repeat(block.steps, ranks * slots)
    ranks_of = np.tile(np.repeat(np.arange(ranks), slots), steps)
    columns = {
        "kind": pa.array([row.kind for row in rows], pa.string()).take(
            pa.array(np.tile(np.arange(slots), steps * ranks))
        ),
        "begin_ns": pa.array(_stacked([row.begins for row in rows])),
        "duration_ns": pa.array(_stacked([row.durations for row in rows])),
        "job": _repeated(block.job, count),
        "host": block.hosts.take(pa.array(ranks_of)),
        "rank": pa.array(block.ranks[ranks_of]),
        "phase": _repeated(block.phase, count),
        "step": _nullable(step_numbers),
        "sample": _nullable(_optional([row.samples for row in rows], (steps, ranks))).cast(
            pa.string()
        ),
        "file": _files(_optional([row.files for row in rows], (steps, ranks)), block.suffix),
        "bytes": _nullable(_optional([row.bytes for row in rows], (steps, ranks))),
        "is_write": pa.array([row.is_write for row in rows], pa.bool_()).take(
            pa.array(np.tile(np.arange(slots), steps * ranks))
        ),
    }
    if block.steps_per_epoch:
        epochs = np.where(step_numbers == NULL, NULL, step_numbers // block.steps_per_epoch)
        columns["epoch"] = _nullable(epochs)
    batch = _with_nulls(columns, count)
    present = [
        np.ones((steps, ranks), np.bool_) if row.is_present is None else row.is_present
        for row in rows
    ]
    is_present = np.stack(present, axis=-1).ravel()
    return batch if is_present.all() else batch.filter(pa.array(is_present))


def _with_nulls(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    schema = arrow_schema()
    arrays = [
        columns[name] if name in columns else pa.nulls(count, schema.field(name).type)
        for name in COLUMNS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stacked(arrays: Sequence[Ints]) -> Ints:
    stacked: Ints = np.stack(arrays, axis=-1).ravel()
    return stacked


def _optional(arrays: Sequence[Ints | None], shape: tuple[int, int]) -> Ints:
    nothing = np.full(shape, NULL)
    return _stacked([nothing if array is None else array for array in arrays])


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NULL)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int64)))


def _files(numbers: Ints, suffix: str) -> pa.Array:
    """Return the names of files; equal numbers have equal names."""
    unique, places = np.unique(numbers, return_inverse=True)
    names = [None if one == NULL else f"/data/file-{one:07d}{suffix}" for one in unique.tolist()]
    return pa.array(names, pa.string()).take(pa.array(places))
