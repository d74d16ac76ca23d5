"""The steps of a job, as its loader recorded them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.events import Kind, arrow_schema
from headrace.trace.opening import open_trace


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one rank."""

    begin_s: float
    """When its batch was asked for, since 1970 [s]."""

    step_s: float
    """Until the next was asked for [s]."""

    wait_s: float
    """Of that, until the batch was there [s]."""

    queue_batches: int
    """Batches that lay ready then."""

    batch_bytes: int


def read_steps(folder: Path) -> list[Step]:
    """Return the steps that one loader recorded, in their order; none before its first.

    Raises:
        CorruptDataError: what it recorded cannot be read.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return []
    table = pa.Table.from_batches(open_trace([folder]).batches(), schema=arrow_schema())
    steps, waits = (_of_kind(table, kind) for kind in (Kind.STEP, Kind.WAIT))
    loads = _of_kind(table.filter(pc.is_null(table["sample"])), Kind.LOAD)
    return [
        Step(
            begin_s=step["begin_ns"] / 1e9,
            step_s=step["duration_ns"] / 1e9,
            wait_s=wait["duration_ns"] / 1e9,
            queue_batches=dict(load["counts"])["queue_batches"],
            batch_bytes=step["bytes"],
        )
        for step, wait, load in zip(steps, waits, loads, strict=True)
    ]


def _of_kind(table: pa.Table, kind: Kind) -> list[dict[str, Any]]:
    columns = ["begin_ns", "duration_ns", "bytes", "counts"]
    found: list[dict[str, Any]] = (
        table.filter(pc.equal(table["kind"], kind)).sort_by("step").select(columns).to_pylist()
    )
    return found
