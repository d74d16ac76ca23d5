"""Reads ranges of one open file: in parts, several at a time, hedged, and tried again.

All bytes of one call come from one version of the file: a part that is asked for a second
time is taken from the same handle, or from one that was found to be of the same version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any

from headrace.core.errors import DeadlineError, HeadraceError, StorageError
from headrace.storage.calls import Calls, calls_for
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.failure import Failure, Fault, judge_read
from headrace.storage.hdfs.forks import note_read, wait_until_safe
from headrace.storage.hdfs.handles import Handle, Handles
from headrace.storage.hdfs.namenode import NATIVE_ERRORS, pauses
from headrace.storage.port import ByteRange
from headrace.storage.ranges import cut, deal, merge

GAP_BYTES = 64 * 1024
"""Bytes that are rather read than left out: about what a round trip costs [bytes]."""

ATTEMPTS = 6
"""Attempts at a block whose every replica fails, each with a new list of them, in 3 s or more."""

HEDGES = 2
"""Times that parts are asked for once more in one attempt, when not a packet comes. Bytes that
come slowly are left alone: to ask many readers' DataNodes twice makes what is slow slower."""

SLOWEST_BYTES_PER_S = 1e6
"""A read is given more time than ``read_timeout_s`` at this rate."""


class Reading:
    """Reads files of one store. Thread-safe."""

    def __init__(
        self,
        handles: Handles,
        config: HdfsConfig,
        *,
        name: Callable[[str], str],
        holders: Callable[[str, int], Sequence[str]],
    ) -> None:
        """Read through handles.

        Args:
            handles: The open files.
            config: How long, how much at once.
            name: Tells a path's name for error messages.
            holders: Tells the DataNodes that hold the byte at an offset, for these as well.
        """
        self._handles = handles
        self._config = config
        self._name = name
        self._holders = holders

    def read(self, path: str, ranges: Sequence[ByteRange] | None, offset: int = 0) -> list[bytes]:
        """Return the bytes of each range; None is all from ``offset`` on.

        Raises:
            NotFoundError: there is no such file.
            StorageError: a range lies beyond the end, or no replica could be read.
            DeadlineError: the bytes did not come in time.
        """
        give_up_at = time.monotonic() + self._config.read_timeout_s
        for attempt, pause_s in enumerate(pauses(), 1):
            handle = self._reaching(path, ranges)
            wanted = [_rest(handle, offset)] if ranges is None else ranges
            try:
                return self._attempt(path, handle, wanted, give_up_at)
            except NATIVE_ERRORS as error:
                failure = judge_read(error)
                self._handles.forget(path)
                if _is_final(failure, attempt) or time.monotonic() + pause_s > give_up_at:
                    raise failure.error(f"read {self._name(path)}") from error
            time.sleep(pause_s)
        raise AssertionError("pauses do not end")

    def _reaching(self, path: str, ranges: Sequence[ByteRange] | None) -> Handle:
        """Return a handle in which all ranges lie; a file that grew is opened again, once."""
        handle = self._handles.get(path)
        end = max((r.offset + r.length for r in ranges or () if r.length), default=0)
        if end > handle.size:
            self._handles.forget(path)
            handle = self._handles.get(path)
        if end > handle.size:
            raise StorageError(self._too_short(path, handle, end))
        return handle

    def _too_short(self, path: str, handle: Handle, end: int) -> str:
        name = self._name(path)
        if handle.info.size > handle.size:
            return (
                f"{name} is being written: {handle.size} of {handle.info.size} bytes can be read "
                f"so far, and bytes up to {end} were asked for; wait until its writer closes it"
            )
        return (
            f"{name} ends at byte {handle.size}, but bytes up to {end} were asked for; "
            "it was truncated or replaced: restore it, or index again"
        )

    def _attempt(
        self, path: str, handle: Handle, ranges: Sequence[ByteRange], give_up_at: float
    ) -> list[bytes]:
        spans = merge(ranges, GAP_BYTES)
        cuts = [cut(span, self._config.part_bytes) for span in spans]
        parts = [part for span_parts in cuts for part in span_parts]
        if not parts:
            return [b""] * len(ranges)
        extra_s = sum(part.length for part in parts) / SLOWEST_BYTES_PER_S
        fetch = _Fetch(parts, calls_for("data", self._config.reads_in_flight))
        try:
            fetch.start(handle)
            self._collect(path, fetch, handle, give_up_at + extra_s)
        finally:
            fetch.abandon()
        return deal(spans, fetch.joined([len(span_parts) for span_parts in cuts]), ranges)

    def _collect(self, path: str, fetch: _Fetch, handle: Handle, give_up_at: float) -> None:
        hedges, second = 0, None
        while fetch.missing():
            remaining = give_up_at - time.monotonic()
            if remaining <= 0:
                raise DeadlineError(self._late(path, fetch))
            came = fetch.wait(min(remaining, self._config.hedge_s), second)
            if second is not None and second.done():
                other, second = second.result(), None
                if other is not None:
                    fetch.start(other)
            elif not came and second is None and hedges < HEDGES:
                hedges += 1
                second = self._open_once_more(path, handle)

    def _late(self, path: str, fetch: _Fetch) -> str:
        missing = fetch.missing()
        holders = ", ".join(self._holders(path, missing[0].offset)) or "its DataNodes"
        return (
            f"cannot read {self._name(path)}: {len(missing)} of {fetch.count} parts did not come "
            f"in read_timeout_s={self._config.read_timeout_s:g} and a second for each megabyte; "
            f"look at {holders} and the network between"
        )

    def _open_once_more(self, path: str, handle: Handle) -> Future[Handle | None]:
        """Open the same version in the background, as the first attempt may still come through.

        Replicas come in another order then, so that another is first.
        """

        def reopened() -> Handle | None:
            try:
                return self._handles.reopened(path, handle)
            except HeadraceError:  # such as a NameNode that is away
                return None

        return calls_for("hedges").start(reopened)


class _Fetch:
    """Parts of one file on their way, each perhaps more than once."""

    def __init__(self, parts: Sequence[ByteRange], calls: Calls) -> None:
        self._parts = parts
        self._calls = calls
        self._on_the_way: dict[Future[bytes], int] = {}
        self._data: list[bytes | None] = [None] * len(parts)
        self._packets = 0
        """So many came, about: only whether it changes is looked at."""
        self._abandoned = False
        self.count = len(parts)

    def missing(self) -> list[ByteRange]:
        """Return the parts that have not come yet."""
        return [part for part, data in zip(self._parts, self._data, strict=True) if data is None]

    def start(self, handle: Handle) -> None:
        """Ask a handle for all that is missing."""
        for at, part in enumerate(self._parts):
            if self._data[at] is None:
                self._on_the_way[self._calls.start(partial(self._read, handle, part))] = at

    def wait(self, timeout_s: float, other: Future[Handle | None] | None) -> bool:
        """Take in what came; False when not even a packet did. ``other`` ends the wait, too.

        Raises: what hdfs-native raised for a part that is not on its way any more.
        """
        packets = self._packets
        awaited: set[Future[Any]] = {*self._on_the_way, *([other] if other else [])}
        done = wait(awaited, timeout_s, FIRST_COMPLETED).done & self._on_the_way.keys()
        for future in done:
            self._take(future, self._on_the_way.pop(future))
        return bool(done) or self._packets != packets

    def abandon(self) -> None:
        """Give up on what is still on its way; it ends with the next packet."""
        self._abandoned = True
        for future in self._on_the_way:
            self._calls.abandon(future)

    def joined(self, counts: Sequence[int]) -> list[bytes]:
        """Return all bytes, that many parts put together at a time."""
        data = iter(self._data)
        pieces = [[next(data) or b"" for _ in range(count)] for count in counts]
        return [piece[0] if len(piece) == 1 else b"".join(piece) for piece in pieces]

    def _read(self, handle: Handle, part: ByteRange) -> bytes:
        """Return one part; taken packet by packet it costs less than half of the CPU."""
        wait_until_safe()
        packets = []
        try:
            for packet in handle.reader.read_range_stream(part.offset, part.length):
                if self._abandoned:
                    raise OSError("nobody waits for these bytes any more")
                packets.append(packet)
                self._packets += 1
        finally:
            note_read()
        data = b"".join(packets)
        if len(data) != part.length:
            raise OSError(f"{len(data)} bytes came instead of {part.length}")
        return data

    def _take(self, future: Future[bytes], at: int) -> None:
        if self._data[at] is not None:
            return
        error = future.exception()
        if error is None:
            self._data[at] = future.result()
        elif at not in self._on_the_way.values():
            raise error


def _rest(handle: Handle, offset: int) -> ByteRange:
    return ByteRange(offset, max(0, handle.size - offset))


def _is_final(failure: Failure, attempt: int) -> bool:
    if failure.fault in (Fault.REFUSED, Fault.CLOSED, Fault.MISSING):
        return True
    return failure.fault is Fault.DATANODES and attempt >= ATTEMPTS
