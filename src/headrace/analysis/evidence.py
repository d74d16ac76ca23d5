"""What a diagnosis needs to know of a job, taken in batch by batch in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import NULL, Columns, Floats, Ints
from headrace.analysis.fetching import are_told_by_agents, only_fetches, without_fetches
from headrace.analysis.latencies import Latencies
from headrace.analysis.places import Places, PlaceSums
from headrace.analysis.rereads import HitRates, Rereads
from headrace.analysis.windows import History, Quantity, Windows
from headrace.trace.events import Kind, Phase

CACHED = "cached_bytes"
"""Name of the count that says how many of an event's bytes a cache held."""

_PARTS = {
    Kind.METADATA: Quantity.METADATA_S,
    Kind.TRANSFORMATION: Quantity.TRANSFORMATION_S,
    Kind.OVERHEAD: Quantity.OVERHEAD_S,
}
_LASTING = {
    Kind.WAIT: Quantity.WAIT_S,
    Kind.CHECKPOINT_READ: Quantity.CHECKPOINT_READ_S,
    Kind.CHECKPOINT_SAVE: Quantity.CHECKPOINT_SAVE_S,
    Kind.BARRIER: Quantity.BARRIER_S,
}
_FETCHES = {
    Quantity.READ_S: Quantity.FETCH_S,
    Quantity.READS: Quantity.FETCHES,
    Quantity.READ_BYTES: Quantity.FETCH_BYTES,
    Quantity.QUEUED_S: Quantity.FETCH_QUEUED_S,
    Quantity.QUEUED_OF_S: Quantity.FETCH_QUEUED_OF_S,
}
"""Of reads of storage → of requests to agents, which stand for them where nothing else does."""

_SAMPLE_LOADS = {Quantity.LOAD_S: Quantity.SAMPLE_LOAD_S, Quantity.LOADS: Quantity.SAMPLE_LOADS}
"""Of loads of batches → of those of samples, which stand for them where the trace tells no batches.

Where it does, samples are parts of them.
"""

_FAREST = 2**62
"""Events that end later have durations that cannot be true [ns]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvidence:
    """What is known of one job."""

    job: str
    ranks: int
    span_s: float
    """From its first event to its last [s]."""

    history: History
    by_host: tuple[PlaceSums, ...]
    by_rank: tuple[PlaceSums, ...]
    reads: Latencies
    """Of requests that read; of retrievals where the trace has no requests."""

    metadata: Latencies
    hit_rates: HitRates | None


class Evidence:
    """Takes in one job's events, in any order."""

    def __init__(self) -> None:
        self._windows = Windows()
        self._places = Places()
        self._rereads = Rereads()
        self._requests, self._retrievals, self._metadata = Latencies(), Latencies(), Latencies()
        self._fetches = Latencies()
        self.is_told_by_agents = False
        """Whether agents recorded what they read for the job."""

        self._begin_ns, self._end_ns = _FAREST, 0

    def add(self, events: Columns) -> None:
        """Take in some events."""
        if (events.ends >= _FAREST).any():
            events = events.where(events.ends < _FAREST)
        if not len(events):
            return
        self._begin_ns = min(self._begin_ns, int(events.begins.min()))
        self._end_ns = max(self._end_ns, int(events.ends.max()))
        self._places.add(events)
        timed = events.timed()
        self._add_waits(timed)
        self._add_parts(timed)
        self._add_requests(timed.of(Kind.REQUEST))
        self.is_told_by_agents |= are_told_by_agents(events)
        for kind, quantity in _LASTING.items():
            lasting = timed.of(kind)
            self._windows.spread(quantity, lasting.begins, lasting.ends)
        self._add_starts(events)

    def result(self, job: str) -> JobEvidence:
        """Return what is known so far of the job, which is called so."""
        history, reads = self._windows.history(), Latencies()
        reads.merge(self._requests)
        if not self.is_told_by_agents:
            history = history.added(_FETCHES)
            reads.merge(self._fetches)
        if not history.total(Quantity.LOADS):
            history = history.added(_SAMPLE_LOADS)
        return JobEvidence(
            job=job,
            ranks=self._places.ranks,
            span_s=max(0, self._end_ns - self._begin_ns) * 1e-9,
            history=history,
            by_host=self._places.by_host(),
            by_rank=self._places.by_rank(),
            reads=reads if len(reads) else self._retrievals,
            metadata=self._metadata,
            hit_rates=self._rereads.hit_rates(history),
        )

    def _add_waits(self, events: Columns) -> None:
        waits, loads = events.of(Kind.WAIT), events.of(Kind.LOAD)
        self._windows.add(waits.ends, {Quantity.WAITS: _operations(waits)})
        self._add_cached(loads)
        of_samples = loads.texts("sample").codes != NULL
        batches, samples = loads.where(~of_samples), loads.where(of_samples)
        self._windows.add(batches.ends, _loaded(batches))
        amounts = _loaded(samples)
        self._windows.add(samples.ends, {term: amounts[one] for one, term in _SAMPLE_LOADS.items()})

    def _add_parts(self, events: Columns) -> None:
        for kind, quantity in _PARTS.items():
            found = events.of(kind)
            self._windows.add(found.ends, {quantity: _seconds(found)})
        looked_up = events.of(Kind.METADATA)
        self._metadata.add(_each_s(looked_up))
        found = events.of(Kind.RETRIEVAL)
        self._retrievals.add(_each_s(found))
        self._windows.add(
            found.ends,
            {
                Quantity.RETRIEVAL_S: _seconds(found),
                Quantity.RETRIEVALS: _operations(found),
                Quantity.RETRIEVAL_BYTES: _bytes(found),
                **_queued(found),
            },
        )

    def _add_requests(self, requests: Columns) -> None:
        reads = requests.where(~requests.flags("is_write") & (requests.numbers("bytes") >= 0))
        if not len(reads):
            return
        asked, fetched = without_fetches(reads), only_fetches(reads)
        self._rereads.add(asked)
        self._requests.add(_each_s(asked))
        self._windows.add(asked.ends, _read(asked))
        self._fetches.add(_each_s(fetched))
        amounts = _read(fetched)
        self._windows.add(fetched.ends, {term: amounts[one] for one, term in _FETCHES.items()})
        self._add_cached(reads)

    def _add_cached(self, events: Columns) -> None:
        cached = events.counts(CACHED)
        told = events.where(cached >= 0)
        self._windows.add(
            told.ends,
            {
                Quantity.CACHED_BYTES: cached[cached >= 0].astype(np.float64),
                Quantity.CACHED_OF_BYTES: _bytes(told),
            },
        )

    def _add_starts(self, events: Columns) -> None:
        codes, phases = events.texts("phase")
        first = pa.compute.index(phases, Phase.INITIALISATION.value).as_py()
        if first >= 0:
            begun = events.where(codes == first)
            self._windows.add(begun.ends, {Quantity.STARTS: np.ones(len(begun))})


def _seconds(events: Columns) -> Floats:
    return events.durations.astype(np.float64) * 1e-9


def _whole(events: Columns) -> Ints:
    """Return of how many operations each event is, at least one."""
    return np.maximum(events.operations, 1)


def _operations(events: Columns) -> Floats:
    return events.operations.astype(np.float64)


def _each_s(events: Columns) -> Floats:
    """Return the mean duration of an event's operations [s]."""
    return _seconds(events) / _whole(events).astype(np.float64)


def _bytes(events: Columns) -> Floats:
    return np.maximum(events.numbers("bytes"), 0).astype(np.float64)


def _read(requests: Columns) -> dict[Quantity, Floats]:
    return {
        Quantity.READ_S: _seconds(requests),
        Quantity.READS: _operations(requests),
        Quantity.READ_BYTES: _bytes(requests),
        **_queued(requests),
    }


def _loaded(loads: Columns) -> dict[Quantity, Floats]:
    return {Quantity.LOAD_S: _seconds(loads), Quantity.LOADS: _operations(loads)}


def _queued(events: Columns) -> dict[Quantity, Floats]:
    queued = events.numbers("queue_ns")
    known = queued >= 0
    return {
        Quantity.QUEUED_S: np.where(known, queued, 0) * 1e-9,
        Quantity.QUEUED_OF_S: np.where(known, events.durations, 0) * 1e-9,
    }
