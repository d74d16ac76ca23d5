"""How much of requests' time is latency of a request, and how much its bytes.

Requests are sorted by size into classes, each twice as large as the one before. Of each class
the time that a tenth of its requests stay below is taken as what a request of that size takes
without contention. A line through these, ``floor = latency + bytes / bandwidth``, tells both
apart. The share of round trips is then ``latency * round trips / sum of durations``; time in
queues, where it is told, is left out. Sizes must span a factor of four at least, or nothing can
be told apart.
"""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import Columns, Floats, Ints

FLOOR = 0.1
"""Quantile of a class that is taken for its time without contention."""

LEAST_REQUESTS = 8
"""Of a class that counts."""

LEAST_SPAN = 4.0
"""Largest mean size of a class over the smallest."""

_CLASSES = 64
_STEP = 0.02
"""Width of a bin of durations, as a share."""

_BINS = int(63 * np.log(2) / np.log1p(_STEP)) + 2


class RoundTrips:
    """Adds up requests in one direction: reads, or writes."""

    def __init__(self) -> None:
        self._bins: Ints = np.empty(0, np.int64)
        self._counts: Ints = np.empty(0, np.int64)
        self._bytes = np.zeros(_CLASSES)
        self._trips = 0
        self._total_ns = 0.0

    def add(self, requests: Columns) -> None:
        """Take in requests whose duration and size are known."""
        operations = np.maximum(requests.operations, 1)
        without_queue = requests.durations - np.maximum(requests.numbers("queue_ns"), 0)
        service = np.maximum(without_queue, 0) / operations
        sizes = requests.numbers("bytes") / operations
        classes = np.minimum(np.log2(np.maximum(sizes, 1)).astype(np.int64), _CLASSES - 1)
        bins = (np.log(np.maximum(service, 1)) / np.log1p(_STEP)).astype(np.int64)
        self._count(classes * _BINS + bins, operations)
        self._bytes += np.bincount(classes, weights=sizes * operations, minlength=_CLASSES)
        self._trips += _trips(requests, operations)
        self._total_ns += float((service * operations).sum())

    def merge(self, other: RoundTrips) -> None:
        """Take in all that another one took in."""
        self._count(other._bins, other._counts)
        self._bytes += other._bytes
        self._trips += other._trips
        self._total_ns += other._total_ns

    @property
    def total_ns(self) -> float:
        """Time of all requests without their queues [ns]."""
        return self._total_ns

    def latency_ns(self) -> float | None:
        """Return the time that requests have in common [ns]; None where it cannot be told."""
        counts = np.zeros((_CLASSES, _BINS), np.int64)
        counts.flat[self._bins] = self._counts
        per_class = counts.sum(axis=1)
        used = np.flatnonzero(per_class >= LEAST_REQUESTS)
        if not used.size:
            return None
        sizes = self._bytes[used] / per_class[used]
        if sizes[-1] < LEAST_SPAN * max(sizes[0], 1.0):
            return None
        until = np.cumsum(counts[used], axis=1)
        bins = (until < FLOOR * per_class[used, None]).sum(axis=1)
        return _intercept(sizes, np.expm1((bins + 0.5) * np.log1p(_STEP)) + 1)

    def _count(self, bins: Ints, counts: Ints) -> None:
        self._bins, row = np.unique(np.concatenate((self._bins, bins)), return_inverse=True)
        weights = np.concatenate((self._counts, counts))
        self._counts = np.bincount(row, weights=weights).astype(np.int64)

    def trips_ns(self) -> float | None:
        """Return the time that went to round trips [ns]; None where it cannot be told."""
        latency = self.latency_ns()
        return None if latency is None else min(latency * self._trips, self._total_ns)


def _trips(requests: Columns, operations: Ints) -> int:
    known = requests.numbers("round_trips")
    return int(np.where(known < 0, operations, known).sum())


def _intercept(sizes: Floats, floors: Floats) -> float:
    """Fit ``floor = latency + bytes * slope``, neither negative, by relative errors."""
    weights = 1 / floors
    terms = np.column_stack((weights, sizes * weights))
    (latency, slope), *_ = np.linalg.lstsq(terms, np.ones(floors.size), rcond=None)
    if slope < 0:
        return float(floors.min())
    return max(float(latency), 0.0)
