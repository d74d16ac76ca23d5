"""Counts requests and tells how much of their time went into round trips."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.storage.port import FileRange


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchStatistics:
    """What a fetcher read since it was made."""

    ranges: int = 0
    """Ranges that were wanted, such as tensors' shards."""

    wanted_bytes: int = 0
    """Of these ranges [bytes]."""

    requests: int = 0
    """Reads that the store was asked for, those that failed among them."""

    read_bytes: int = 0
    """What was asked for; more than was wanted, as gaps are read along [bytes]."""

    retries: int = 0
    """Requests that failed and were asked for again."""

    request_s: float = 0.0
    """Time that all requests took together; many are in flight at once [s]."""

    round_trip_s: float = 0.0
    """Of ``request_s``, what did not depend on the number of bytes: an estimate by a straight
    line through all requests' times over their lengths [s]."""

    wall_s: float = 0.0
    """Time in which there was something to fetch [s]."""

    @property
    def requests_per_range(self) -> float:
        """Requests for each wanted range: below 1 where ranges were coalesced."""
        return self.requests / self.ranges if self.ranges else 0.0

    @property
    def bytes_per_request(self) -> float:
        """Mean length of a request [bytes]."""
        return self.read_bytes / self.requests if self.requests else 0.0

    @property
    def round_trip_share(self) -> float:
        """Share of the requests' time that went into round trips, 0 … 1."""
        return self.round_trip_s / self.request_s if self.request_s else 0.0


class Tally:
    """Collects ``FetchStatistics``. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ranges = self._wanted_bytes = self._retries = 0
        self._line = _Line()
        self._wall_s = 0.0

    def wanted(self, ranges: Sequence[FileRange]) -> None:
        """Count ranges that are wanted."""
        with self._lock:
            self._ranges += len(ranges)
            self._wanted_bytes += sum(one.length for one in ranges)

    def retried(self) -> None:
        """Count a request that is asked for again."""
        with self._lock:
            self._retries += 1

    @contextmanager
    def request(self, nbytes: int) -> Iterator[None]:
        """Count a request and the time that it takes."""
        begin = self._clock.now()
        try:
            yield
        finally:
            with self._lock:
                self._line.add(nbytes, self._clock.now() - begin)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time in which something is fetched."""
        begin = self._clock.now()
        try:
            yield
        finally:
            with self._lock:
                self._wall_s += self._clock.now() - begin

    def statistics(self) -> FetchStatistics:
        """Return what was counted up to now."""
        with self._lock:
            return FetchStatistics(
                ranges=self._ranges,
                wanted_bytes=self._wanted_bytes,
                requests=self._line.count,
                read_bytes=self._line.nbytes,
                retries=self._retries,
                request_s=self._line.seconds,
                round_trip_s=self._line.fixed_s(),
                wall_s=self._wall_s,
            )


class _Line:
    """Least squares: a request takes a fixed time and some for each byte."""

    def __init__(self) -> None:
        self.count = 0
        self.nbytes = 0
        self.seconds = 0.0
        self._squares = self._products = 0.0
        self._shortest_s = math.inf

    def add(self, nbytes: int, seconds: float) -> None:
        self.count += 1
        self.nbytes += nbytes
        self.seconds += seconds
        self._squares += float(nbytes) * nbytes
        self._products += nbytes * seconds
        self._shortest_s = min(self._shortest_s, seconds)

    def fixed_s(self) -> float:
        """Return the fixed part of all requests' time [s]; at most the shortest one's for each."""
        if not self.count:
            return 0.0
        spread = self.count * self._squares - float(self.nbytes) ** 2
        fixed_s = self._shortest_s
        if spread > 1e-6 * self.count * self._squares:
            slope = (self.count * self._products - self.nbytes * self.seconds) / spread
            fixed_s = (self.seconds - slope * self.nbytes) / self.count
        return self.count * min(max(0.0, fixed_s), self._shortest_s)
