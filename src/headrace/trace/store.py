"""Records events into a folder, from any thread, without holding up or ending who records."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import ConfigError, StorageError
from headrace.trace import lifetime
from headrace.trace.arrays import repeated
from headrace.trace.events import Event, batch_of
from headrace.trace.retention import make_room
from headrace.trace.segments import Origin, SegmentFile

logger = logging.getLogger("headrace.trace")

BATCH_EVENTS = 8192
"""Events and rows that are written at once, at most; so many that wait wake the writer."""

_PAUSE_S = 0.001
"""So long the writer pauses between writes, that a fork or a flush may come between [s]."""

_FORK_S = 1.0
"""So long a fork waits for a write to end [s]."""

_CLOSE_S = 5.0
"""So long closing waits for a disk that hangs [s]."""

_FROM_ORIGIN = ("job", "host", "rank", "pid")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecorderLimits:
    """How much a recorder holds back, and how much it leaves on disk."""

    flush_s: float = 0.5
    """An event waits in memory no longer than this; a kill loses what waits [s]."""

    segment_bytes: int = 64 << 20
    """A file is ended at this size [bytes]."""

    folder_bytes: int = 1 << 30
    """All segments of the folder together; before they take more, the oldest go [bytes]."""

    waiting_events: int = 1 << 18
    """Events in memory at most, where the disk is slow; further ones are lost."""

    def __post_init__(self) -> None:
        if not 0 < self.flush_s <= 60:
            raise ConfigError(f"flush_s={self.flush_s:g} s must lie in (0, 60]")
        if not 0 < self.segment_bytes <= self.folder_bytes:
            raise ConfigError(
                f"segment_bytes={self.segment_bytes} must lie in (0, folder_bytes="
                f"{self.folder_bytes}]; make segments smaller or give the folder more"
            )
        if self.waiting_events < 1:
            raise ConfigError(f"waiting_events={self.waiting_events} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecorderStatistics:
    """What became of the events of one process."""

    written_events: int
    lost_events: int
    """Could not be written, came too fast for the disk, or made room for others."""

    waiting_events: int


class Rows(Protocol):
    """Makes events of rows of numbers, of many at once, when they are written."""

    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return the events that rows stand for, as a batch of the schema."""


_Row: TypeAlias = tuple[Rows, tuple[Any, ...]]
_T = TypeVar("_T", Event, tuple[Any, ...])


class EventRecorder:
    """Writes the events of one process to segments in a folder. Thread-safe.

    Recording appends to memory (about 0.1 µs); a thread of the recorder writes at least every
    ``flush_s``. What is written outlives the process, not the machine. Whatever cannot be written
    is lost, counted, and warned of once; nothing raises after the beginning. A fork records into
    segments of its own, without what its parent had not yet written; where it ends by
    ``os._exit`` and is no child of multiprocessing, it should ``flush`` before.

    Args:
        folder: Made where it is missing.
        origin: What events do not say of themselves.
        limits: Of memory and disk.

    Raises:
        StorageError: nothing can be written to the folder.
    """

    def __init__(
        self, folder: str | Path, origin: Origin, *, limits: RecorderLimits | None = None
    ) -> None:
        self._origin = msgspec.structs.replace(origin, host=origin.host or socket.gethostname())
        self._limits = limits or RecorderLimits()
        self._is_closed = self._has_warned = False
        self._segment: SegmentFile | None = None
        self._writer: threading.Thread | None = None
        self._begin_empty()
        try:
            self._folder = Path(folder).absolute()  # the program may go to another one
            self._segment = self._next_segment()
        except OSError as error:
            raise StorageError(
                f"cannot write a trace to {folder}: {error.strerror}; name a folder that can "
                "be written and has space, or go without a trace"
            ) from error
        lifetime.watch(self)

    @property
    def job(self) -> str | None:
        """Whose events are that name no job."""
        return self._origin.job

    def record(self, event: Event) -> None:
        """Take in one event; it is in the trace within ``flush_s``."""
        self._take(event)

    def record_row(self, rows: Rows, row: tuple[Any, ...]) -> None:
        """Take in one row, of which ``rows`` makes one event or several when it is written.

        It is counted as one event where it is lost.
        """
        self._take((rows, row))

    def name_job(self, job: str) -> None:
        """Let events that name no job be of this one, also those that were recorded before."""
        self.flush()
        with self._lock:
            self._origin = msgspec.structs.replace(self._origin, job=job)
            self._end()

    def flush(self) -> None:
        """Write all that was recorded so far, so that readers see it."""
        with self._lock:  # what another thread writes just now is written then
            left = len(self._pending)
        while left > 0:
            with self._lock:
                taken = self._write_some(left)
            left = left - taken if taken else 0  # another thread has written them
            if left > 0:
                time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Write what is left and end the trace; what is recorded later is dropped."""
        self._is_closed = True
        self._wake.set()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.join(_CLOSE_S)
        if not self._lock.acquire(timeout=_CLOSE_S):
            self._lose(len(self._pending), "the disk does not answer")
            return
        try:
            while self._write_some(len(self._pending)):
                pass
            self._end()
            self._say_lost()
        finally:
            self._lock.release()
        lifetime.forget(self)

    def statistics(self) -> RecorderStatistics:
        """Return the counts so far."""
        return RecorderStatistics(
            written_events=self._written, lost_events=self._lost, waiting_events=len(self._pending)
        )

    def __enter__(self) -> EventRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def before_fork(self) -> bool:
        """Let no write be under way in a fork; tell whether that could be had in time."""
        return self._lock.acquire(timeout=_FORK_S)

    def after_fork_in_parent(self) -> None:
        """Go on, where :meth:`before_fork` said yes."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Leave files and events to the parent, and begin anew with the next event."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.leave_to_parent()
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._pending: deque[Event | _Row] = deque()
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._wake = threading.Event()
        self._writer = None
        self._written = self._lost = self._unsaid = 0

    def _take(self, one: Event | _Row) -> None:
        if self._is_closed:
            return
        waiting = len(self._pending)
        if waiting >= BATCH_EVENTS and not self._has_room(waiting):
            return
        self._pending.append(one)
        if self._writer is None:
            self._start()

    def _has_room(self, waiting: int) -> bool:
        if not self._wake.is_set():
            self._wake.set()
        if waiting >= self._limits.waiting_events:
            self._lose(1, "events come faster than the disk takes them")
            return False
        return True

    def _start(self) -> None:
        """Start the writer; with the first event, so that a fork without events has none."""
        with self._lock:
            if self._writer is None and not self._is_closed:
                self._writer = threading.Thread(
                    target=self._run, args=(self._wake,), name="headrace-trace", daemon=True
                )
                lifetime.see_end()
                try:
                    self._writer.start()
                except RuntimeError as error:  # no more threads, or the interpreter ends
                    self._is_closed, self._writer = True, None
                    self._lose(len(self._pending), str(error))

    def _run(self, wake: threading.Event) -> None:
        while not self._is_closed:
            wake.wait(self._limits.flush_s)
            wake.clear()
            self.flush()
            time.sleep(_PAUSE_S)

    def _write_some(self, most: int) -> int:
        """Write the oldest of what waits and return how many that were; the lock is held."""
        count = min(most, BATCH_EVENTS, len(self._pending))
        taken = [self._pending.popleft() for _ in range(count)]
        lost = len(taken)
        try:
            if taken:
                batch = self._batch(taken)
                lost = batch.num_rows
                self._append(batch)
        except Exception as error:  # noqa: BLE001 - whatever happens, recording goes on
            self._lose(lost, getattr(error, "strerror", None) or repr(error))
        return len(taken)

    def _append(self, batch: pa.RecordBatch) -> None:
        self._segment = self._segment_with_room()
        self._segment.append(_filled(batch, self._segment.origin))
        self._written += batch.num_rows

    def _batch(self, taken: Sequence[Event | _Row]) -> pa.RecordBatch:
        events: list[Event] = []
        rows: defaultdict[Rows, list[tuple[Any, ...]]] = defaultdict(list)
        for one in taken:
            if isinstance(one, tuple):
                rows[one[0]].append(one[1])
            else:
                events.append(one)
        made = [self._made(maker.events, some) for maker, some in rows.items()]
        return pa.concat_batches([self._made(batch_of, events), *made])

    def _made(self, make: Callable[[list[_T]], pa.RecordBatch], some: list[_T]) -> pa.RecordBatch:
        """Return a batch of all, but of those of which none can be made."""
        try:
            return make(some)
        except (pa.ArrowException, ArithmeticError, AttributeError, TypeError, ValueError) as error:
            plain = [_encodable(one) for one in some]
            if plain != some:
                return self._made(make, plain)
            if len(some) == 1:
                self._lose(1, f"{some[0]} does not fit the schema ({error})")
                return batch_of(())
        middle = len(some) // 2
        return pa.concat_batches([self._made(make, some[:middle]), self._made(make, some[middle:])])

    def _segment_with_room(self) -> SegmentFile:
        segment = self._segment
        is_full = segment is None or segment.nbytes >= self._limits.segment_bytes
        if segment is not None and not is_full and segment.is_readable:
            return segment
        self._end()
        return self._next_segment()

    def _next_segment(self) -> SegmentFile:
        room = self._limits.folder_bytes - self._limits.segment_bytes
        self._count_lost(make_room(self._folder, room).events)
        origin = msgspec.structs.replace(self._origin, pid=self._origin.pid or os.getpid())
        unsaid = self._unsaid
        segment = SegmentFile(self._folder, origin, lost=unsaid)
        with self._counting:
            self._unsaid -= unsaid
        return segment

    def _end(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _say_lost(self) -> None:
        """Leave a segment that says what is missing, where no later one can."""
        if self._unsaid:
            with suppress(OSError):  # it was warned of
                self._segment = self._next_segment()
                self._end()

    def _count_lost(self, events: int) -> None:
        with self._counting:
            self._lost += events
            self._unsaid += events

    def _lose(self, events: int, why: str) -> None:
        self._count_lost(events)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%d events are missing from the trace in %s: %s; the program goes on, further "
                "losses are counted only",
                events,
                self._folder,
                why,
            )


def _encodable(one: _T) -> _T:
    """Return an event with names that are Unicode, as those of files need not be."""
    if not isinstance(one, Event):
        return one
    texts = {name: text for name, text in msgspec.structs.asdict(one).items() if type(text) is str}
    plain = {name: text.encode(errors="backslashreplace").decode() for name, text in texts.items()}
    return msgspec.structs.replace(one, **plain)


def _filled(batch: pa.RecordBatch, origin: Origin) -> pa.RecordBatch:
    for name in _FROM_ORIGIN:
        value, column = getattr(origin, name), batch.column(name)
        if value is not None and column.null_count:
            place = batch.schema.get_field_index(name)
            said = repeated(value, column.type, batch.num_rows)
            filled = pc.if_else(column.is_valid(), column, said)
            batch = batch.set_column(place, batch.schema.field(place), filled)
    return batch
