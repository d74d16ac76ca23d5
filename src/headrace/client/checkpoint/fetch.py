"""Reads many byte ranges of files in few, large, parallel requests, within bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from headrace.client.checkpoint.checkpointlog import CheckpointLog
from headrace.client.checkpoint.coalescing import FetchLimits, Request, plan_requests
from headrace.client.checkpoint.tally import FetchStatistics, Tally
from headrace.client.joining import join_all
from headrace.core.backoff import Backoff
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import CallerError, DeadlineError, StorageError
from headrace.storage.port import FileRange
from headrace.storage.rangefile import ReadsRanges

LEAVE_S = 10.0
"""Longest wait for requests in flight when nobody wants them any more [s]."""


@runtime_checkable
class TellsServer(Protocol):
    """What reads ranges from several places."""

    def last_server(self) -> str | None:
        """Return who served what this thread read last; None: the store itself."""
        ...


class RangeFetcher:
    """Fetches ranges from a store, or from anything else that reads ranges. Thread-safe.

    Waits are bounded by those of the store: each request is one ``read``.
    """

    def __init__(
        self,
        source: ReadsRanges,
        limits: FetchLimits | None = None,
        *,
        clock: Clock | None = None,
        log: CheckpointLog | None = None,
    ) -> None:
        self._source = source
        self._limits = limits or FetchLimits()
        self._tally = Tally(clock or SystemClock())
        self._log = log

    def fetch(
        self, wanted: Sequence[FileRange], into: Mapping[int, memoryview] | None = None
    ) -> Iterator[tuple[int, memoryview]]:
        """Yield the index and the bytes of each wanted range, in the order in which they come.

        Nothing is copied unless it has to be: bytes of a range that was read with others are a
        read-only slice of what was read, those of a range longer than a request lie in writable
        memory of their own. What was yielded counts as taken when the next one is asked for.

        Args:
            wanted: Ranges of files, in any order; they may overlap, touch, or be empty.
            into: Where the bytes of some ranges are to go, by index: writable, contiguous,
                exactly as long as the range. Yielded as they are.

        Raises:
            NotFoundError: a file is not there.
            StorageError: bytes could not be read in ``FetchLimits.attempts``.
            CallerError: a range lies before the start of its file, or a destination does not
                fit its range.
        """
        fetching = _Fetching(self._read, self._limits, self._tally, wanted, into or {})
        with self._tally.working():
            yield from fetching.results()

    def statistics(self) -> FetchStatistics:
        """Return what was read up to now."""
        return self._tally.statistics()

    def _read(self, request: Request) -> bytes:
        begin = time.monotonic()
        with self._tally.request(request.length):
            data = self._source.read(request.path, request.offset, request.length)
        if self._log is not None:
            source = self._source
            replica = source.last_server() if isinstance(source, TellsServer) else None
            self._log.requested(request.path, request.offset, len(data), begin, replica=replica)
        return data


class _Fetching:
    """The ranges of one call, its threads and what they brought."""

    def __init__(
        self,
        read: Callable[[Request], bytes],
        limits: FetchLimits,
        tally: Tally,
        wanted: Sequence[FileRange],
        into: Mapping[int, memoryview],
    ) -> None:
        self._read_once = read
        self._limits = limits
        self._tally = tally
        self._wanted = wanted
        self._into = {index: _checked(wanted[index], view) for index, view in into.items()}
        self._queue = deque(plan_requests(wanted, limits))
        self._changed = threading.Condition()
        self._buffers: dict[int, memoryview] = {}
        self._missing: dict[int, int] = {}
        self._held_bytes = 0
        self._came: deque[tuple[int, memoryview, int]] = deque()
        self._error: BaseException | None = None
        self._stopped = False

    def results(self) -> Iterator[tuple[int, memoryview]]:
        """Yield what comes; ends all threads when it ends."""
        self._tally.wanted(self._wanted)
        empty = [index for index, one in enumerate(self._wanted) if not one.length]
        threads = self._start()
        try:
            for index in empty:
                yield index, self._into.get(index, memoryview(b""))
            for _ in range(len(self._wanted) - len(empty)):
                index, view, held = self._next()
                yield index, view
                del view
                self._release(held)
        finally:
            self._stop()
            join_all(threads, LEAVE_S)

    def _start(self) -> list[threading.Thread]:
        count = min(self._limits.parallel, len(self._queue))
        threads = [
            threading.Thread(target=self._work, name=f"headrace-fetch-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _next(self) -> tuple[int, memoryview, int]:
        with self._changed:
            self._changed.wait_for(lambda: self._came or self._error)
            if self._error is not None:
                raise self._error
            return self._came.popleft()

    def _release(self, nbytes: int) -> None:
        with self._changed:
            self._held_bytes -= nbytes
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while (request := self._take()) is not None:
                self._deliver(request, self._read(request))
        except BaseException as error:  # noqa: BLE001 - it is raised where the ranges are wanted
            with self._changed:
                self._error = self._error or error
                self._stopped = True
                self._changed.notify_all()

    def _take(self) -> Request | None:
        """Return the next request when there is memory for it; None: there is no more to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._queue or self._fits())
            if self._stopped or not self._queue:
                return None
            self._held_bytes += self._cost(self._queue[0])
            request = self._queue.popleft()
            self._open_buffer(request)
            return request

    def _fits(self) -> bool:
        cost = self._cost(self._queue[0])
        return (
            not cost or not self._held_bytes or self._held_bytes + cost <= self._limits.memory_bytes
        )

    def _cost(self, request: Request) -> int:
        """Return the memory that a request takes up until its ranges are taken [bytes]."""
        if self._is_whole(request):
            return request.length
        index = request.parts[0].index
        known = index in self._missing or index in self._into
        return 0 if known else self._wanted[index].length

    def _is_whole(self, request: Request) -> bool:
        """Tell whether a request brings all of its ranges, not a part of a long one."""
        return request.parts[0].length == self._wanted[request.parts[0].index].length

    def _open_buffer(self, request: Request) -> None:
        """Get memory for a range that comes in parts, when the first one is asked for."""
        index = request.parts[0].index
        if self._is_whole(request) or index in self._missing:
            return
        length = self._wanted[index].length
        self._missing[index] = length
        self._buffers[index] = self._into.get(index) or np.empty(length, np.uint8).data

    def _read(self, request: Request) -> memoryview:
        backoff = Backoff(first_s=0.1, longest_s=2.0)
        while True:
            try:
                return memoryview(_complete(request, self._read_once(request)))
            except (StorageError, DeadlineError):
                pause_s = backoff.failed()
                if backoff.failures >= self._limits.attempts or self._waited(pause_s):
                    raise
                self._tally.retried()

    def _waited(self, pause_s: float) -> bool:
        """Wait before another attempt; True: nobody wants it any more."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopped, pause_s)

    def _deliver(self, request: Request, data: memoryview) -> None:
        if self._is_whole(request):
            self._deliver_ranges(request, data)
        else:
            self._deliver_part(request, data)

    def _deliver_ranges(self, request: Request, data: memoryview) -> None:
        """Hand over ranges that came whole; the memory is free when the last one is taken."""
        came = []
        for number, part in enumerate(request.parts, 1):
            view = data[part.start : part.start + part.length]
            if part.index in self._into and not self._stopped:
                self._into[part.index][:] = view
                view = self._into[part.index]
            came.append((part.index, view, request.length if number == len(request.parts) else 0))
        self._hand_over(came)

    def _deliver_part(self, request: Request, data: memoryview) -> None:
        part = request.parts[0]
        buffer = self._buffers[part.index]
        if not self._stopped:
            buffer[part.at : part.at + part.length] = data
        with self._changed:
            self._missing[part.index] -= part.length
            if self._missing[part.index]:
                return
            del self._buffers[part.index]
        self._hand_over([(part.index, buffer, 0 if part.index in self._into else len(buffer))])

    def _hand_over(self, came: Sequence[tuple[int, memoryview, int]]) -> None:
        with self._changed:
            self._came.extend(came)
            self._changed.notify_all()


def _checked(wanted: FileRange, view: memoryview) -> memoryview:
    flat = view.cast("B") if view.nbytes else view
    if flat.nbytes != wanted.length or flat.readonly:
        raise CallerError(
            f"the destination of {wanted.length} bytes of {wanted.path} takes {flat.nbytes} and is "
            f"{'read-only' if flat.readonly else 'writable'}; give writable memory of that length"
        )
    return flat


def _complete(request: Request, data: bytes) -> bytes:
    if len(data) != request.length:
        raise StorageError(
            f"{len(data)} bytes of {request.path} came from offset {request.offset} instead of "
            f"{request.length}; look at what serves them"
        )
    return data
