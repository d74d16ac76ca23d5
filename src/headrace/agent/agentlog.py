"""Records what an agent does for jobs: reads, transforms, answers. Of many samples only sums."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.policy.lookahead_events import Visit
from headrace.prepare.job import OpenJob
from headrace.trace.arrays import array_of
from headrace.trace.events import Event, Kind, batch_of, batch_of_columns, counts_column
from headrace.trace.recording import Recording, open_recording, wall_ns
from headrace.trace.segments import Origin

MOST_EACH = 64
"""Samples of one write, half a second's, that are recorded one by one; of more, sums are."""


class MadeRow(NamedTuple):
    """One sample that was read, and transformed perhaps."""

    job: OpenJob
    visit: Visit
    ended: int
    """[ns since 1970]."""

    nbytes: int
    """Read [bytes]."""

    cached: int | None
    """Of those, out of the agent's cache [bytes]; None: it has none."""

    read_s: float
    transform_s: float
    """0: not at all."""


class ServedRow(NamedTuple):
    """One answer to a rank. Times in ns, the first since 1970."""

    job: str
    rank: int
    step: int
    begin: int
    duration: int
    queue: int
    nbytes: int
    samples: int
    samples_tensor: int
    samples_raw: int


class AgentLog:
    """Records for one agent. Event loop's thread only."""

    def __init__(self, recording: Recording | None) -> None:
        self._recording = recording
        self._made, self._served = MadeRows(), ServedRows()

    def made(
        self,
        job: OpenJob,
        visit: Visit,
        *,
        nbytes: int,
        cached: int | None,
        read_s: float,
        transform_s: float = 0.0,
    ) -> None:
        """Record that a sample is ready now.

        Args:
            job: Whose it is.
            visit: Which it is.
            nbytes: What was read for it [bytes].
            cached: What of that came out of the agent's cache [bytes]; None: it has none.
            read_s: How long that took [s].
            transform_s: How long it was worked on then [s].
        """
        if self._recording is not None:
            # a MadeRow, in haste
            row = (job, visit, time.time_ns(), nbytes, cached, read_s, transform_s)
            self._recording.record_row(self._made, row)

    def served(self, row: ServedRow) -> None:
        """Record an answer to a rank."""
        if self._recording is not None:
            self._recording.record_row(self._served, row)

    def served_range(
        self, file: str, offset: int, nbytes: int, begin: float, *, kept: bool
    ) -> None:
        """Record that bytes of a file were sent, from ``begin`` until now.

        Args:
            file: Its URL or path.
            offset: Of the first of them [bytes].
            nbytes: How many [bytes].
            begin: When they were asked for, monotonic [s].
            kept: They lay in memory; else they were read for this.
        """
        if self._recording is not None:
            self._recording.record(
                Event(
                    kind=Kind.CALL,
                    name="serve range",
                    begin_ns=wall_ns(begin),
                    duration_ns=_ns(time.monotonic() - begin),
                    file=file,
                    offset=offset,
                    bytes=nbytes,
                    counts={"bytes_kept": nbytes if kept else 0},
                )
            )

    def read_range(self, file: str, offset: int, nbytes: int, begin: float) -> None:
        """Record that bytes of a file were read of storage, from ``begin`` until now.

        Args:
            file: Its URL or path.
            offset: Of the first of them [bytes].
            nbytes: How many [bytes].
            begin: Monotonic [s].
        """
        if self._recording is not None:
            self._recording.record(
                Event(
                    kind=Kind.REQUEST,
                    name="read",
                    begin_ns=wall_ns(begin),
                    duration_ns=_ns(time.monotonic() - begin),
                    file=file,
                    offset=offset,
                    bytes=nbytes,
                    is_write=False,
                )
            )

    def close(self) -> None:
        """Let what was recorded be written."""
        if self._recording is not None:
            self._recording.leave()


def open_agent_log(name: str) -> AgentLog:
    """Return the log of an agent; its events are of a host of the agent's name.

    So they are found as those of the ``replica`` that ranks record.
    """
    origin = Origin(role="agent", host=name)
    return AgentLog(open_recording(True, origin, run=f"agent-{name}"))


class MadeRows:
    """Makes events of samples that were read and transformed."""

    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return a ``request`` for each sample and a ``call`` for its transform, or sums of them.

        Args:
            rows: Each a :class:`MadeRow`.
        """
        if len(rows) <= MOST_EACH:
            return batch_of(event for row in rows for event in _each(MadeRow(*row)))
        sums: defaultdict[str, _Sum] = defaultdict(_Sum)
        for row in rows:
            sums[row[1].job].add(MadeRow(*row))
        return batch_of(event for job, one in sums.items() for event in one.events(job))


class _Sum:
    """What many samples of a job took together."""

    __slots__ = ("_begin", "_cached", "_nbytes", "_read", "_read_s", "_transform_s", "_transformed")

    def __init__(self) -> None:
        self._begin: int | None = None
        self._cached: int | None = None
        self._read = self._transformed = self._nbytes = 0
        self._read_s = self._transform_s = 0.0

    def add(self, row: MadeRow) -> None:
        if self._begin is None:
            self._begin = row.ended - _ns(row.read_s + row.transform_s)
        self._read += 1
        self._nbytes += row.nbytes
        if row.cached is not None:
            self._cached = (self._cached or 0) + row.cached
        self._read_s += row.read_s
        if row.transform_s:
            self._transformed += 1
            self._transform_s += row.transform_s

    def events(self, job: str) -> Iterator[Event]:
        begin = self._begin or 0
        yield Event(
            kind=Kind.REQUEST,
            name="read",
            begin_ns=begin,
            duration_ns=_ns(self._read_s),
            job=job,
            bytes=self._nbytes,
            is_write=False,
            count=self._read,
            counts=_told_cached(self._cached),
        )
        if self._transformed:
            yield Event(
                kind=Kind.CALL,
                name="transform",
                begin_ns=begin,
                duration_ns=_ns(self._transform_s),
                job=job,
                count=self._transformed,
            )


class ServedRows:
    """Makes events of answers."""

    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return a ``call`` for each answer.

        Args:
            rows: Each a :class:`ServedRow`.
        """
        numbers = np.array([row[1:] for row in rows], np.int64)
        column = dict(zip(ServedRow._fields[1:], numbers.T, strict=True))
        return batch_of_columns(
            len(rows),
            {
                "kind": Kind.CALL,
                "name": "serve",
                "begin_ns": column["begin"],
                "duration_ns": column["duration"],
                "job": array_of([row[0] for row in rows], pa.string()),
                "rank": column["rank"],
                "step": column["step"],
                "bytes": column["nbytes"],
                "queue_ns": column["queue"],
                "counts": counts_column(ServedRow._fields[-3:], numbers[:, -3:]),
            },
        )


def _each(row: MadeRow) -> Iterator[Event]:
    file, offset = row.job.start(row.visit.sample)
    transform_ns = _ns(row.transform_s)
    read = Event(
        kind=Kind.REQUEST,
        name="read",
        begin_ns=row.ended - transform_ns - _ns(row.read_s),
        duration_ns=_ns(row.read_s),
        job=row.visit.job,
        step=row.visit.step,
        epoch=row.visit.epoch,
        sample=str(row.visit.sample),
        file=file,
        offset=offset,
        bytes=row.nbytes,
        is_write=False,
        counts=_told_cached(row.cached),
    )
    yield read
    if row.transform_s:
        yield Event(
            kind=Kind.CALL,
            name="transform",
            begin_ns=row.ended - transform_ns,
            duration_ns=transform_ns,
            job=read.job,
            step=read.step,
            epoch=read.epoch,
            sample=read.sample,
            file=file,
        )


def _told_cached(cached: int | None) -> dict[str, int] | None:
    return None if cached is None else {"cached_bytes": cached}


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
