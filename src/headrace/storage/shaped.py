"""A store made as slow as another medium: seeks, shared bandwidth, latency, jitter.

For demos and tests on machines where the block layer cannot be limited. The medium is
one queue: requests are served one piece after another, so concurrent readers share the
bandwidth, and a short read does not wait for all of a long one. Given the same seed and
the same order of requests, the delays are the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.core.clock import Clock, SystemClock
from headrace.core.digest import Buffer
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError
from headrace.storage.port import ByteRange, FileInfo, FileWriter, Storage
from headrace.storage.writing import AbortingWriter

PIECE_BYTES = 256 * 1024
"""Largest transfer that is never interrupted by another reader's [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How slow the medium is."""

    bytes_per_s: float = float("inf")
    """Bandwidth that all readers and writers share [B/s]."""

    seek_s: float = 0.0
    """Time the medium is busy before a transfer that does not continue the last one [s]."""

    latency_s: float = 0.0
    """Time added to each request, in which the medium may serve others (a round trip) [s]."""

    jitter: float = 0.0
    """Each delay is drawn from 1 - jitter … 1 + jitter times its nominal value."""

    seed: int = 0
    """Seed of the jitter."""

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0:
            raise ConfigError(f"shape.bytes_per_s={self.bytes_per_s:g} must be above 0")
        if self.seek_s < 0 or self.latency_s < 0:
            raise ConfigError(
                f"shape.seek_s={self.seek_s:g} and latency_s={self.latency_s:g} must be 0 or more"
            )
        if not 0 <= self.jitter < 1:
            raise ConfigError(f"shape.jitter={self.jitter:g} must lie in [0, 1)")


HARD_DISK = Shape(bytes_per_s=150e6, seek_s=0.008)
"""A 7,200 rpm disk: one head, 8 ms to move it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapeStatistics:
    """What the shaped medium did since it was opened."""

    requests: int
    seeks: int
    bytes: int
    busy_s: float
    """Time the medium was occupied [s]."""


class ShapedStorage:
    """Any storage, delayed as a slower medium would delay it. Thread-safe."""

    def __init__(
        self,
        inner: Storage,
        shape: Shape,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = inner
        self._medium = _Medium(shape)
        self._clock = clock or SystemClock()
        self._sleep = sleep

    @property
    def url(self) -> str:
        """The inner store's URL."""
        return self._inner.url

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        """Yield the inner store's files; listing costs one request."""
        self._delay(None, 0, 0)
        return self._inner.list(prefix, hidden=hidden, recursive=recursive)

    def stat(self, path: str) -> FileInfo:
        """Describe one file, undelayed: metadata is assumed to be cached."""
        return self._inner.stat(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return the bytes once the shaped medium would have delivered them."""
        data = self._inner.read(path, offset, length)
        self._delay(path, offset, len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Sequence[bytes]:
        """Return the bytes of each range; each costs what a read of its own costs."""
        parts = self._inner.read_ranges(path, ranges)
        for wanted in ranges:
            self._delay(path, wanted.offset, wanted.length)
        return parts

    def write(self, path: str, data: bytes) -> FileInfo:
        """Write through once the shaped medium would have taken the bytes."""
        self._delay(path, 0, len(data))
        return self._inner.write(path, data)

    def create(self, path: str) -> FileWriter:
        """Begin a file; each piece is written once the shaped medium would have taken it."""
        return _ShapedWriter(self._inner.create(path), path, self._delay)

    def rename(self, source: str, target: str) -> None:
        """Move a file, undelayed."""
        self._inner.rename(source, target)

    def delete(self, path: str) -> None:
        """Remove a file, undelayed."""
        self._inner.delete(path)

    def delete_folder(self, path: str) -> None:
        """Remove a folder, undelayed."""
        self._inner.delete_folder(path)

    def close(self) -> None:
        """Close the inner store."""
        self._inner.close()

    def statistics(self) -> ShapeStatistics:
        """Return what the medium did so far."""
        return self._medium.statistics()

    def _delay(self, path: str | None, offset: int, length: int) -> None:
        latency = self._medium.start_request()
        self._sleep_until(self._clock.now() + latency)
        for start in range(offset, offset + max(1, length), PIECE_BYTES):
            size = min(PIECE_BYTES, offset + length - start)
            self._sleep_until(self._medium.occupy(path, start, size, now=self._clock.now()))

    def _sleep_until(self, moment: float) -> None:
        remaining = moment - self._clock.now()
        if remaining > 0:
            self._sleep(remaining)


class _ShapedWriter(AbortingWriter):
    """A file of the inner store, written as fast as the medium takes it."""

    def __init__(
        self, inner: FileWriter, path: str, delay: Callable[[str | None, int, int], None]
    ) -> None:
        self._inner, self._path, self._delay = inner, path, delay
        self._offset = 0

    def write(self, data: Buffer) -> None:
        """Append bytes."""
        nbytes = memoryview(data).nbytes
        self._delay(self._path, self._offset, nbytes)
        self._offset += nbytes
        self._inner.write(data)

    def commit(self) -> FileInfo:
        """Commit the inner store's file."""
        return self._inner.commit()

    def abort(self) -> None:
        """Abort it."""
        self._inner.abort()


class _Medium:
    """The one queue: says when a transfer that arrives now will be done."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._head: tuple[str | None, int] = (None, -1)
        self._requests = self._seeks = self._bytes = self._delays = 0
        self._busy_s = 0.0

    def start_request(self) -> float:
        """Count a request and return its latency [s]."""
        with self._lock:
            self._requests += 1
            return self._shape.latency_s * self._noise()

    def occupy(self, path: str | None, offset: int, length: int, *, now: float) -> float:
        """Reserve the medium for one piece and return the time at which it is done [s]."""
        with self._lock:
            moved = (path, offset) != self._head
            nominal = self._shape.seek_s * moved + length / self._shape.bytes_per_s
            duration = nominal * self._noise()
            self._free_at = max(now, self._free_at) + duration
            self._head = (path, offset + length)
            self._seeks += moved
            self._bytes += length
            self._busy_s += duration
            return self._free_at

    def statistics(self) -> ShapeStatistics:
        with self._lock:
            return ShapeStatistics(
                requests=self._requests, seeks=self._seeks, bytes=self._bytes, busy_s=self._busy_s
            )

    def _noise(self) -> float:
        if not self._shape.jitter:
            return 1.0
        draws = Draws(SampleKey(self._shape.seed, 0, self._delays), 0)
        self._delays += 1
        return draws.uniform(1 - self._shape.jitter, 1 + self._shape.jitter)
