"""Requests to storage: sizes, latencies, and how much of their time is round trips.

Of metadata, events that have a name (``open``) are questions to storage; those without are a sum
over a load, and count for loading alone.
"""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import NULL, Columns
from headrace.analysis.figures import Requests
from headrace.analysis.named import NamedSums
from headrace.analysis.roundtrips import RoundTrips
from headrace.analysis.spreads import NS_PER_S, SpreadSketch
from headrace.analysis.stretches import Union
from headrace.trace.events import Kind

MOST_BUSY = 131_072
"""Stretches of time in which requests were under way that are kept."""

MOST_OPERATIONS = 20
"""Names of operations that are told."""

_NAMELESS = "request"


class RequestSums:
    """Adds up what is known of requests and of questions about files."""

    def __init__(self) -> None:
        self._reads = SpreadSketch()
        self._writes = SpreadSketch()
        self._latency = SpreadSketch()
        self._metadata = SpreadSketch()
        self._trips = (RoundTrips(), RoundTrips())
        self._names = NamedSums(("name",), {"operations": "sum"})
        self._busy = Union(MOST_BUSY)
        self._timed_bytes = 0

    def add(self, columns: Columns) -> None:
        """Take in the events that are requests or questions."""
        metadata = columns.of(Kind.METADATA)
        questions = metadata.where(metadata.texts("name").codes != NULL)
        _add_times(self._metadata, questions)
        requests = columns.of(Kind.REQUEST)
        for events in (requests, questions):
            self._count_names(events)
        if len(requests):
            self._add_requests(requests)

    def merge(self, other: RequestSums) -> None:
        """Take in all that another one took in."""
        self._reads.merge(other._reads)
        self._writes.merge(other._writes)
        self._latency.merge(other._latency)
        self._metadata.merge(other._metadata)
        for mine, theirs in zip(self._trips, other._trips, strict=True):
            mine.merge(theirs)
        self._names.merge(other._names)
        self._busy.add(*other._busy.whole())
        self._busy.closed_s += other._busy.closed_s
        self._timed_bytes += other._timed_bytes

    def result(self, files: int | None = None) -> Requests | None:
        """Return the figures; None where the trace tells no requests."""
        operations = self._operations()
        if not operations and not self._latency.count and not self._reads.count:
            return None
        busy_s = self._busy.whole().seconds()
        return Requests(
            read_bytes=self._reads.result(curve=True),
            write_bytes=self._writes.result(curve=True),
            latency_s=self._latency.result(NS_PER_S, curve=True),
            metadata_s=self._metadata.result(NS_PER_S),
            round_trip_share=self._round_trip_share(),
            bytes_per_s=self._timed_bytes / busy_s if busy_s and self._timed_bytes else None,
            files=files,
            operations=operations,
        )

    @property
    def closed_s(self) -> float:
        """Time by which requests may seem to have been under way too long [s]."""
        return self._busy.closed_s

    def _add_requests(self, requests: Columns) -> None:
        _add_times(self._latency, requests)
        single = requests.single()
        self._busy.add(np.zeros(len(single), np.int64), single.begins, single.ends)
        sized = requests.where(requests.numbers("bytes") >= 0)
        self._timed_bytes += int(sized.single().numbers("bytes").sum())
        is_write = sized.flags("is_write")
        directions = ((~is_write, self._reads, 0), (is_write, self._writes, 1))
        for chosen, sketch, place in directions:
            events = sized.where(chosen)
            operations = events.operations
            sketch.add(events.numbers("bytes") / np.maximum(operations, 1), operations)
            self._trips[place].add(events.timed())

    def _count_names(self, events: Columns) -> None:
        if len(events):
            self._names.add({"name": events.strings("name"), "operations": events.operations})

    def _operations(self) -> dict[str, int]:
        table = self._names.table()
        if table is None:
            return {}
        pairs = zip(table["name"].to_pylist(), table["operations"].to_pylist(), strict=True)
        named = sorted((-number, name or _NAMELESS) for name, number in pairs)
        return {name: -number for number, name in named[:MOST_OPERATIONS]}

    def _round_trip_share(self) -> float | None:
        """Return the share over the directions for which it can be told."""
        told = [(trips.trips_ns(), trips.total_ns) for trips in self._trips]
        known = [(part, whole) for part, whole in told if part is not None and whole]
        if not known:
            return None
        return sum(part for part, _ in known) / sum(whole for _, whole in known)


def _add_times(sketch: SpreadSketch, events: Columns) -> None:
    timed = events.timed()
    operations = timed.operations
    sketch.add(timed.durations / np.maximum(operations, 1), operations)
