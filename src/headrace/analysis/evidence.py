"""What a diagnosis needs to know of a job, taken in batch by batch in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import NULL, Columns, Floats, Ints
from headrace.analysis.fetching import are_told_by_agents, only_fetches, without_fetches
from headrace.analysis.latencies import Latencies
from headrace.analysis.rereads import HitRates, Rereads
from headrace.analysis.windows import History, Quantity, Windows
from headrace.trace.events import Kind, Phase

CACHED = "cached_bytes"
"""Name of the count that says how many of an event's bytes a cache held."""

_UNNAMED = "-"

_OF_RANKS = (Kind.WAIT, Kind.STEP, Kind.COMPUTE, Kind.CHECKPOINT_READ, Kind.CHECKPOINT_SAVE)
"""Kinds that only ranks have."""

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

_PLACE_BITS = 40
_PLACE = (1 << _PLACE_BITS) - 1
_PROCESS = 1 << (_PLACE_BITS - 1)
"""Set where a place is a process, of no rank that is known."""

_FAREST = 2**62
"""Events that end later have durations that cannot be true [ns]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSums:
    """What one host's ranks came to."""

    name: str
    ranks: int
    loads: float
    load_s: float
    waits: float
    wait_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvidence:
    """What is known of one job."""

    job: str
    ranks: int
    span_s: float
    """From its first event to its last [s]."""

    history: History
    hosts: tuple[HostSums, ...]
    reads: Latencies
    """Of requests that read; of retrievals where the trace has no requests."""

    metadata: Latencies
    hit_rates: HitRates | None


class Evidence:
    """Takes in one job's events, in any order."""

    def __init__(self) -> None:
        self._windows = Windows()
        self._hosts = _Hosts()
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
        self._hosts.add(events)
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
        return JobEvidence(
            job=job,
            ranks=self._hosts.ranks,
            span_s=max(0, self._end_ns - self._begin_ns) * 1e-9,
            history=history,
            hosts=self._hosts.sums(),
            reads=reads if len(reads) else self._retrievals,
            metadata=self._metadata,
            hit_rates=self._rereads.hit_rates(history),
        )

    def _add_waits(self, events: Columns) -> None:
        waits, loads = events.of(Kind.WAIT), events.of(Kind.LOAD)
        self._windows.add(waits.ends, {Quantity.WAITS: _operations(waits)})
        amounts = {Quantity.LOAD_S: _seconds(loads), Quantity.LOADS: _operations(loads)}
        self._windows.add(loads.ends, amounts)
        self._add_cached(loads)

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


class _Hosts:
    """Loads and waits by host; by rank where no host is told."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sums: Floats = np.zeros((0, 4))
        self._places: set[int] = set()
        """Of ranks on hosts, packed into one number."""

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len({one if one & _PROCESS else one & _PLACE for one in self._places})

    def add(self, events: Columns) -> None:
        of_ranks = events.of(*_OF_RANKS)
        packed = (self._numbered(of_ranks) << _PLACE_BITS) + of_ranks.places % (1 << _PLACE_BITS)
        self._places.update(np.unique(packed).tolist())
        for kind, column in ((Kind.LOAD, 0), (Kind.WAIT, 2)):
            found = events.of(kind).timed()
            hosts = self._numbered(found)
            for place, values in ((column, _operations(found)), (column + 1, _seconds(found))):
                sums = np.bincount(hosts, weights=values, minlength=len(self._sums))
                self._sums[:, place] += sums

    def sums(self) -> tuple[HostSums, ...]:
        ranks = np.bincount([one >> _PLACE_BITS for one in self._places], minlength=len(self._sums))
        return tuple(
            HostSums(name=name, ranks=count, loads=n, load_s=load_s, waits=waits, wait_s=wait_s)
            for name, count, (n, load_s, waits, wait_s) in zip(
                self._numbers, ranks.tolist(), self._sums.tolist(), strict=True
            )
        )

    def _numbered(self, events: Columns) -> Ints:
        """Return the number of each event's host."""
        codes, hosts = events.texts("host")
        if (codes == NULL).all():
            ranks, codes = np.unique(events.numbers("rank"), return_inverse=True)
            names = [f"rank {rank}" if rank >= 0 else _UNNAMED for rank in ranks.tolist()]
        else:
            names = [*hosts.to_pylist(), _UNNAMED]
            codes = np.where(codes == NULL, len(names) - 1, codes)
        numbers = np.full(len(names), NULL)
        for code in np.unique(codes).tolist():
            numbers[code] = self._number(names[code])
        return numbers[codes]

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
            self._sums = np.vstack((self._sums, np.zeros((1, self._sums.shape[1]))))
        return self._numbers[name]


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


def _queued(events: Columns) -> dict[Quantity, Floats]:
    queued = events.numbers("queue_ns")
    known = queued >= 0
    return {
        Quantity.QUEUED_S: np.where(known, queued, 0) * 1e-9,
        Quantity.QUEUED_OF_S: np.where(known, events.durations, 0) * 1e-9,
    }
