"""Writes what a log of Darshan tells to standard output, as a stream of batches of events.

``python -m headrace.trace.importers.darshanlog LOG``; only this process loads Darshan's library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.trace.events import Kind, arrow_schema
from headrace.trace.importers import columns

_NS = 1_000_000_000
_LONGEST_S = 1e9
"""No job lasts thirty years [s]."""

_LOOKUPS = ("OPENS", "FDOPENS", "STATS", "SEEKS")
_RECORDS = 4096
"""So many records are held at once."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """One event for all operations of a sort on a file, and the counters that tell of it."""

    kind: Kind
    name: str
    begin: str
    bytes: str | None = None
    is_write: bool | None = None


_SUMS = {
    "READ": _Sum(
        kind=Kind.REQUEST,
        name="read",
        begin="F_READ_START_TIMESTAMP",
        bytes="BYTES_READ",
        is_write=False,
    ),
    "WRITE": _Sum(
        kind=Kind.REQUEST,
        name="write",
        begin="F_WRITE_START_TIMESTAMP",
        bytes="BYTES_WRITTEN",
        is_write=True,
    ),
    "META": _Sum(kind=Kind.METADATA, name="open", begin="F_OPEN_START_TIMESTAMP"),
}


def main(path: str) -> int:
    """Write the events of a log; return 1 where it cannot be opened."""
    from darshan.backend import cffi_backend

    log = cffi_backend.log_open(path)
    if not log["handle"]:
        sys.stderr.write("it is no log of Darshan\n")
        return 1
    with pa.ipc.new_stream(sys.stdout.buffer, arrow_schema()) as sink:
        for batch in _Log(cffi_backend, log).batches():
            sink.write_batch(batch)
    return 0


class _Log:
    """One open log."""

    def __init__(self, library: Any, log: dict[str, Any]) -> None:
        self._library = library
        self._log = log
        job = library.log_get_job(log)
        self._start_ns = job["start_time_sec"] * _NS + job["start_time_nsec"]
        self._job = str(job["jobid"])
        self._names: dict[int, str] = library.log_get_name_records(log)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield single reads and writes, then the counters of what has none."""
        traced: set[int] = set()
        for record in self._records("DXT_POSIX", "dict"):
            traced.add(record["id"])
            for operation, is_write in (("read", False), ("write", True)):
                if segments := record[f"{operation}_segments"]:
                    yield self._segments(record, segments, operation, is_write=is_write)
        for module in ("POSIX", "STDIO"):
            yield from self._counters(module, traced if module == "POSIX" else set())

    def _records(self, module: str, kind: str) -> Iterator[dict[str, Any]]:
        while (record := self._library.log_get_record(self._log, module, dtype=kind)) is not None:
            yield record

    def _segments(
        self, record: dict[str, Any], segments: list[dict[str, Any]], name: str, *, is_write: bool
    ) -> pa.RecordBatch:
        begin = np.array([segment["start_time"] for segment in segments])
        end = np.array([segment["end_time"] for segment in segments])
        return columns.batch(
            len(segments),
            {
                "kind": Kind.REQUEST,
                "begin_ns": pa.array(self._moments(begin)),
                "duration_ns": columns.not_negative(pa.array(_nanoseconds(end - begin))),
                "name": name,
                "job": self._job,
                "host": record["hostname"] or None,
                "rank": record["rank"] if record["rank"] >= 0 else None,
                "file": self._names.get(record["id"]),
                "offset": columns.counts([segment["offset"] for segment in segments]),
                "bytes": columns.counts([segment["length"] for segment in segments]),
                "is_write": is_write,
            },
        )

    def _counters(self, module: str, traced: set[int]) -> Iterator[pa.RecordBatch]:
        if module not in self._library.log_get_modules(self._log):
            return
        held: list[dict[str, Any]] = []
        for record in self._records(module, "numpy"):
            held.append(record)
            if len(held) == _RECORDS:
                yield from self._sums(module, held, traced)
                held = []
        if held:
            yield from self._sums(module, held, traced)

    def _sums(
        self, module: str, records: list[dict[str, Any]], traced: set[int]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the reads, the writes and the lookups of each file, each as one event."""
        names = [
            *self._library.counter_names(module),
            *self._library.fcounter_names(module),
        ]
        table = np.array([[*one["counters"], *one["fcounters"]] for one in records], np.float64)
        told = {
            name.removeprefix(f"{module}_"): values
            for name, values in zip(names, table.T, strict=True)
        }
        is_counted = np.array([one["id"] not in traced for one in records])
        looked = sum((np.maximum(told[name], 0) for name in _LOOKUPS if name in told), np.zeros(1))
        counts = {
            "READ": told["READS"] * is_counted,
            "WRITE": told["WRITES"] * is_counted,
            "META": looked,
        }
        for operation, count in counts.items():
            yield self._sum(records, told, operation, count)

    def _sum(
        self,
        records: list[dict[str, Any]],
        told: Mapping[str, Numbers],
        operation: str,
        count: Numbers,
    ) -> pa.RecordBatch:
        rows = np.flatnonzero(count > 0)
        ranks = [records[row]["rank"] for row in rows]
        sums = _SUMS[operation]
        return columns.batch(
            len(rows),
            {
                "kind": sums.kind,
                "begin_ns": pa.array(self._moments(told[sums.begin][rows])),
                "duration_ns": columns.not_negative(
                    pa.array(_nanoseconds(told[f"F_{operation}_TIME"][rows]))
                ),
                "name": sums.name,
                "job": self._job,
                "rank": columns.counts(ranks),
                "file": pa.array(
                    [self._names.get(records[row]["id"]) for row in rows], pa.string()
                ),
                "bytes": _whole(told[sums.bytes][rows]) if sums.bytes else None,
                "is_write": sums.is_write,
                "count": _whole(count[rows]),
            },
        )

    def _moments(self, seconds: Numbers) -> npt.NDArray[np.int64]:
        return _nanoseconds(seconds) + np.int64(self._start_ns)


def _nanoseconds(seconds: Numbers) -> npt.NDArray[np.int64]:
    return np.rint(np.clip(seconds, 0, _LONGEST_S) * _NS).astype(np.int64)


def _whole(numbers: Numbers) -> pa.Array:
    return columns.not_negative(pa.array(numbers.astype(np.int64)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
