"""The events of the steps of a training loop, of many at once: columns instead of objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.trace.arrays import array_of, numbers
from headrace.trace.events import PARTS, Kind, Phase, batch_of_columns, counts_column

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

_REQUESTS = (("read", "bytes_storage", "reads"), ("fetch", "bytes_wire", "fetches"))
"""Name, bytes and number of requests to storage and to agents."""

_Table = npt.NDArray[np.int64]
"""int64 [steps, fields]"""


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
        numbers = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * width)
        table = numbers.reshape(-1, width)
        batches = [self._batch(table, own) for own in _each(table)]
        for name, nbytes, count in _REQUESTS:
            summed = table[_is_summed(table, count)]
            if len(summed):
                batches.append(self._batch(summed, _sum(summed, name, nbytes, count)))
        return pa.concat_batches(batches)

    def _batch(self, table: _Table, own: Mapping[str, object]) -> pa.RecordBatch:
        common = {
            "job": self.job,
            "rank": self.rank,
            "step": _column(table, "step"),
            "epoch": _column(table, "epoch"),
            "phase": array_of(PHASES, pa.string()).take(numbers(_column(table, "phase"))),
        }
        return batch_of_columns(len(table), {**common, **own})


def _each(table: _Table) -> list[dict[str, object]]:
    """Return the columns of what every step has."""
    begins, nbytes = _column(table, "load_begin"), _column(table, "nbytes")
    samples = _column(table, "samples")
    return [
        {
            "kind": Kind.STEP,
            "begin_ns": _column(table, "begin"),
            "duration_ns": _column(table, "duration"),
            "bytes": nbytes,
        },
        {
            "kind": Kind.WAIT,
            "begin_ns": _column(table, "begin"),
            "duration_ns": _column(table, "wait"),
        },
        {
            "kind": Kind.LOAD,
            "begin_ns": begins,
            "duration_ns": _column(table, "load"),
            "bytes": nbytes,
            "cpu_ns": _column(table, "cpu"),
            "counts": counts_column(COUNTS, table[:, -len(COUNTS) :]),
        },
        *(
            {
                "kind": kind,
                "begin_ns": begins,
                "duration_ns": _column(table, kind),
                "count": samples,
            }
            for kind in PARTS
        ),
    ]


def _is_summed(table: _Table, count: str) -> npt.NDArray[np.bool_]:
    """Tell which steps have requests that were not recorded one by one."""
    is_summed: npt.NDArray[np.bool_] = _column(table, "is_detailed") == 0
    is_summed &= _column(table, count) > 0
    return is_summed


def _sum(table: _Table, name: str, nbytes: str, count: str) -> dict[str, object]:
    """Return the columns of the steps' requests of one name, added up."""
    return {
        "kind": Kind.REQUEST,
        "name": name,
        "begin_ns": _column(table, "load_begin"),
        "duration_ns": _column(table, name),
        "bytes": _column(table, nbytes),
        "is_write": False,
        "count": _column(table, count),
    }


def _column(table: _Table, name: str) -> npt.NDArray[np.int64]:
    return table[:, StepRow._fields.index(name)]
