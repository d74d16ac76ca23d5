"""Writes events as Chrome's JSON trace format, which Perfetto and chrome://tracing open.

A rank is a process there. Events that name their thread lie on its track as slices; others, which
may overlap, are asynchronous slices on a track of their kind. Times are microseconds with three
decimals, counted from 30 days before the first event that was read, because readers hold them as
64-bit floats, which cannot tell the nanoseconds of a time since 1970.

Source: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.events import SCHEMA_VERSION, Event
from headrace.trace.exportrows import details, events_of
from headrace.trace.outputfile import output_file

HEAD = b'{"displayTimeUnit":"ms","headrace.events":"%b","traceEvents":[' % SCHEMA_VERSION.encode()
"""With which such a file begins; readers pass over what they do not know."""

_BEFORE_NS = 30 * 86_400 * 10**9
_MOST_ID = 2**31
_SHOWN_OTHERWISE = frozenset({"kind", "name", "begin_ns", "duration_ns", "tid"})

_Json = dict[str, Any]


def export_perfetto(batches: Iterable[pa.RecordBatch], path: Path) -> int:
    """Write all events, in the order in which they come, and return how many there were.

    Raises:
        StorageError: the file cannot be written.
    """
    tracks = _Tracks()
    events = 0
    with output_file(path) as file:
        file.write(HEAD)
        separator = b"\n"
        for batch in batches:
            tracks.begin(batch)
            events += batch.num_rows
            for event in events_of(batch):
                for one in tracks.shown(event):
                    file.write(separator + msgspec.json.encode(one))
                    separator = b",\n"
        file.write(b'\n],"otherData":' + msgspec.json.encode(tracks.about()) + b"}\n")
    return events


class _Tracks:
    """Gives each rank a process id, and each event its place."""

    def __init__(self) -> None:
        self._processes: dict[tuple[object, ...], int] = {}
        self._zero_ns: int | None = None
        self._asynchronous = 0

    def begin(self, batch: pa.RecordBatch) -> None:
        """Choose from what moment times count, once."""
        if self._zero_ns is None and batch.num_rows:
            self._zero_ns = pc.min(batch.column("begin_ns")).as_py() - _BEFORE_NS

    def about(self) -> _Json:
        """Return what a reader needs to turn times back into those of the trace."""
        return {"time_zero_ns": str(self._zero_ns or 0)}

    def shown(self, event: Event) -> Iterator[_Json]:
        """Yield the entries of one event."""
        process = (event.job, event.host, event.rank, event.pid)
        number = self._processes.get(process)
        if number is None:
            number = self._processes[process] = len(self._processes) + 1
            yield from _named(number, event)
        common = {
            "name": event.name or event.kind,
            "cat": event.kind,
            "pid": number,
            "tid": (event.tid or 0) % _MOST_ID,
            "ts": self._micros(event.begin_ns - (self._zero_ns or 0)),
        }
        arguments = {"args": details(event, but=_SHOWN_OTHERWISE)}
        if event.duration_ns is None:
            yield common | {"ph": "i", "s": "t"} | arguments
        elif event.tid is not None and event.count is None:
            yield common | {"ph": "X", "dur": self._micros(event.duration_ns)} | arguments
        else:
            self._asynchronous += 1
            id_ = {"id": hex(self._asynchronous)}
            end = self._micros(event.begin_ns + event.duration_ns - (self._zero_ns or 0))
            yield common | {"ph": "b"} | id_ | arguments
            yield common | {"ph": "e", "ts": end} | id_

    @staticmethod
    def _micros(ns: int) -> float:
        return ns / 1000


def _named(number: int, event: Event) -> Iterator[_Json]:
    parts = [
        event.job,
        None if event.rank is None else f"rank {event.rank}",
        event.host,
        None if event.pid is None else f"pid {event.pid}",
    ]
    name = " · ".join(part for part in parts if part) or "events"
    yield {"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}}
    order = number if event.rank is None else event.rank
    yield {"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": order}}
