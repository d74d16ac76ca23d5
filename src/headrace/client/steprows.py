"""The events of the steps of a training loop, of many at once: columns instead of objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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

_Column = npt.NDArray[np.int64]


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
        table = np.array(rows, np.int64)
        column = dict(zip(StepRow._fields, table.T, strict=True))
        common = self._common(column)
        each = pa.concat_batches(
            [batch_of_columns(len(rows), {**common, **own}) for own in _each(column, table)]
        )
        summed = [
            batch_of_columns(len(rows), {**common, **own}).filter(pa.array(is_wanted))
            for own, is_wanted in _sums(column)
        ]
        return pa.concat_batches([each, *summed])

    def _common(self, column: Mapping[str, _Column]) -> dict[str, object]:
        return {
            "job": self.job,
            "rank": self.rank,
            "step": column["step"],
            "epoch": column["epoch"],
            "phase": pa.array(PHASES).take(pa.array(column["phase"])),
        }


def _each(column: Mapping[str, _Column], table: _Column) -> list[dict[str, object]]:
    """Return the columns of what every step has."""
    loading = {"begin_ns": column["load_begin"], "count": column["samples"]}
    return [
        {
            "kind": Kind.STEP,
            "begin_ns": column["begin"],
            "duration_ns": column["duration"],
            "bytes": column["nbytes"],
        },
        {"kind": Kind.WAIT, "begin_ns": column["begin"], "duration_ns": column["wait"]},
        {
            "kind": Kind.LOAD,
            "begin_ns": column["load_begin"],
            "duration_ns": column["load"],
            "bytes": column["nbytes"],
            "cpu_ns": column["cpu"],
            "counts": counts_column(COUNTS, table[:, -len(COUNTS) :]),
        },
        *({"kind": kind, "duration_ns": column[kind], **loading} for kind in PARTS),
    ]


def _sums(column: Mapping[str, _Column]) -> list[tuple[dict[str, object], npt.NDArray[np.bool_]]]:
    """Return the columns of requests that were not recorded one by one, and who has any."""
    common = {"kind": Kind.REQUEST, "begin_ns": column["load_begin"], "is_write": False}
    return [
        (
            {
                **common,
                "name": name,
                "duration_ns": column[name],
                "bytes": column[nbytes],
                "count": column[count],
            },
            (column["is_detailed"] == 0) & (column[count] > 0),
        )
        for name, nbytes, count in (
            ("read", "bytes_storage", "reads"),
            ("fetch", "bytes_wire", "fetches"),
        )
    ]
