"""The events of the steps of a training loop, of many at once: columns instead of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.trace.arrays import array_of, numbers
from headrace.trace.events import (
    PARTS,
    Kind,
    Phase,
    arrow_schema,
    batch_of_columns,
    counts_column,
)

PHASES = tuple(Phase)


class StepRow(NamedTuple):
    """What is noted of a step while the loop goes on. Times in ns, begins since 1970."""

    step: int
    epoch: int
    phase: int
    """Place in :data:`PHASES`."""

    begin: int
    duration: int
    wait: int
    load_begin: int
    load: int
    metadata: int
    retrieval: int
    transformation: int
    overhead: int
    cpu: int
    nbytes: int
    """Of the batch."""

    is_detailed: int
    """1: its requests were recorded one by one."""

    reads: int
    """Requests to storage from here."""

    read: int
    fetches: int
    """Requests to agents."""

    fetch: int
    samples: int
    samples_tensor: int
    samples_raw: int
    samples_hedged: int
    samples_local: int
    samples_substituted: int
    samples_dropped: int
    queue_batches: int
    queue_bytes: int
    bytes_wire: int
    bytes_storage: int
    queued_ns: int
    throttled_ns: int


COUNTS = StepRow._fields[StepRow._fields.index("samples") :]
"""Those that are found in ``counts`` of a step's ``load``."""

_Table = npt.NDArray[np.int64]
"""int64 [rows, fields]"""


@dataclass(frozen=True, slots=True)
class _Block:
    """Events of one kind: which fields of their rows tell what, if any does."""

    kind: Kind
    begin: str
    duration: str
    bytes: str | None = None
    cpu: str | None = None
    count: str | None = None
    name: str | None = None
    is_write: bool | None = None


_Blocks = Sequence[tuple[_Block, _Table]]
"""With the rows that each is made of."""

_LOAD = _Block(Kind.LOAD, "load_begin", "load", bytes="nbytes", cpu="cpu")
_EACH = (
    _Block(Kind.STEP, "begin", "duration", bytes="nbytes"),
    _Block(Kind.WAIT, "begin", "wait"),
    _LOAD,
    *(_Block(kind, "load_begin", kind, count="samples") for kind in PARTS),
)
"""What every step has."""

_SUMS = tuple(
    _Block(Kind.REQUEST, "load_begin", name, bytes=nbytes, count=count, name=name, is_write=False)
    for name, nbytes, count in (
        ("read", "bytes_storage", "reads"),
        ("fetch", "bytes_wire", "fetches"),
    )
)
"""Requests that were not recorded one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """Makes events of the steps of one rank."""

    job: str
    rank: int

    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return of each step ``step``, ``wait``, ``load``, its parts, and requests in sums.

        Args:
            rows: Each a :class:`StepRow`.
        """
        width = len(StepRow._fields)
        flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * width)
        table = flat.reshape(-1, width)
        blocks = [(block, table) for block in _EACH]
        blocks += [(block, table[_is_summed(table, block)]) for block in _SUMS]
        return self._batch(blocks)

    def _batch(self, blocks: _Blocks) -> pa.RecordBatch:
        """Return the events of all blocks, one after the other."""
        whole = np.concatenate([table for _, table in blocks])
        columns: dict[str, object] = {
            "job": self.job,
            "rank": self.rank,
            "step": _column(whole, "step"),
            "epoch": _column(whole, "epoch"),
            "phase": array_of(PHASES, pa.string()).take(numbers(_column(whole, "phase"))),
            "kind": _repeated([block.kind for block, _ in blocks], pa.string(), blocks),
            "name": _repeated([block.name for block, _ in blocks], pa.string(), blocks),
            "is_write": _repeated([block.is_write for block, _ in blocks], pa.bool_(), blocks),
            "begin_ns": _chosen("begin", blocks),
            "duration_ns": _chosen("duration", blocks),
            "bytes": _chosen("bytes", blocks),
            "cpu_ns": _chosen("cpu", blocks),
            "count": _chosen("count", blocks),
            "counts": pa.concat_arrays([_counts(block, table) for block, table in blocks]),
        }
        return batch_of_columns(len(whole), columns)


def _is_summed(table: _Table, block: _Block) -> npt.NDArray[np.bool_]:
    """Tell which steps have requests of a block."""
    assert block.count is not None
    is_summed: npt.NDArray[np.bool_] = _column(table, "is_detailed") == 0
    is_summed &= _column(table, block.count) > 0
    return is_summed


def _repeated(values: Sequence[object], kind: pa.DataType, blocks: _Blocks) -> pa.Array:
    """Return a column of each block's value, one or null for all of its events."""
    lengths = [len(table) for _, table in blocks]
    return array_of(values, kind).take(numbers(np.repeat(np.arange(len(blocks)), lengths)))


def _chosen(what: str, blocks: _Blocks) -> pa.Array:
    """Return a column of what each block takes from the field that it names; null without one."""
    return pa.concat_arrays([_field(table, getattr(block, what)) for block, table in blocks])


def _field(table: _Table, name: str | None) -> pa.Array:
    return pa.nulls(len(table), pa.int64()) if name is None else numbers(_column(table, name))


def _counts(block: _Block, table: _Table) -> pa.Array:
    if block is not _LOAD:
        return pa.nulls(len(table), arrow_schema().field("counts").type)
    return counts_column(COUNTS, table[:, -len(COUNTS) :])


def _column(table: _Table, name: str) -> npt.NDArray[np.int64]:
    return table[:, StepRow._fields.index(name)]
