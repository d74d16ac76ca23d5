"""Makes one event of quick operations on one place of a file.

A decoder reads a picture's header in a dozen of them.
"""

from __future__ import annotations

import os
import threading

from .tracer import Tracer, Watcher

JOINED_NS = 100_000_000
"""An event of several operations spans no more [ns]."""

QUICK_NS = 1_000_000
"""An operation that takes longer is an event of its own [ns]."""

NEAR_BYTES = 1 << 20
"""So near to the end of the last operation is the same place [bytes]."""


class Runs:
    """Those of all open files of a process. Thread-safe; a fork begins without its parent's.

    A run is recorded as soon as an operation follows that is not part of it, its file is closed,
    or anything is recorded so much later that no operation can be part of it any more.
    """

    def __init__(self, tracer: Tracer, watcher: Watcher) -> None:
        self.tracer = tracer
        self.watcher = watcher
        self.lock = threading.RLock()
        self.growing: dict[Run, int] = {}
        """What is not yet recorded, and when it began [ns]; the earliest first."""

        self._is_settling = False
        tracer.before_record(self._settle)
        os.register_at_fork(after_in_child=self._begin_fork)

    def end_all(self) -> None:
        """Record all of them."""
        with self.lock:
            for run in list(self.growing):
                run.end()

    def _settle(self, moment: int) -> None:
        """Record those that ended by now, the earlier ones first."""
        if not self.growing or self._is_settling:
            return
        with self.lock:
            self._is_settling = True
            try:
                while self.growing and moment - next(iter(self.growing.values())) >= JOINED_NS:
                    next(iter(self.growing)).end()
            finally:
                self._is_settling = False

    def _begin_fork(self) -> None:
        self.lock = threading.RLock()
        self._is_settling = False
        for run in self.growing:
            run.begin_empty()
        self.growing.clear()


class Run:
    """Quick operations of one direction on one place of a file."""

    __slots__ = ("_began", "_bytes", "_count", "_end", "_file", "_is_write", "_offset", "_runs",
                 "_took")  # fmt: skip

    def __init__(self, runs: Runs, file: str) -> None:
        self._runs = runs
        self._file = file
        self._began = self._offset = self._end = 0
        self._is_write = False
        self.begin_empty()

    def begin_empty(self) -> None:
        """Forget what was added."""
        self._count = self._bytes = self._took = 0

    def add(self, began: int, took: int, offset: int, nbytes: int, is_write: bool) -> None:
        """Add an operation."""
        tally = self._runs.tracer.tallies.current
        if tally is not None and not is_write:
            tally.read(self._file, took, nbytes)
        with self._runs.lock:
            if self._count and not self._goes_on_with(began, took, offset, is_write):
                self.end()
            if not self._count:
                self._began, self._offset, self._is_write = began, offset, is_write
                self._runs.growing[self] = began
            self._offset = min(self._offset, offset)
            self._end = offset + nbytes
            self._count += 1
            self._bytes += nbytes
            self._took += took

    def end(self) -> None:
        """Record what was added."""
        with self._runs.lock:
            if self._runs.growing.pop(self, None) is not None:
                self._runs.watcher.try_to(self._record)
                self.begin_empty()

    def _goes_on_with(self, began: int, took: int, offset: int, is_write: bool) -> bool:
        return (
            took < QUICK_NS
            and self._took < QUICK_NS * self._count
            and began - self._began < JOINED_NS
            and is_write == self._is_write
            and abs(offset - self._end) <= NEAR_BYTES
        )

    def _record(self) -> None:
        self._runs.tracer.record_request(
            self._began,
            self._took,
            name="write" if self._is_write else "read",
            file=self._file,
            offset=self._offset,
            nbytes=self._bytes,
            is_write=self._is_write,
            count=self._count if self._count > 1 else None,
        )
