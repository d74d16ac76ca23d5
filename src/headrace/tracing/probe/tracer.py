"""Records what hooks see; whatever goes wrong in one switches it off and leaves the program be."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from .spool import Spool
from .tally import Tallies

PARENT_VARIABLE = "HEADRACE_TRACE_PARENT"
"""Environment variable by which a process tells spawned ones what it is at (JSON)."""

PHASE_VARIABLE = "HEADRACE_PHASE"
"""Environment variable that says what a process is at; a companion evaluation sets it."""

_EPOCH_NS = 1_000_000_000
_FORK_SERVER = "multiprocessing.forkserver"
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was watched."""

    began: int
    """By ``time.perf_counter_ns`` [ns]."""

    took: int
    """[ns]."""

    result: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    before: Any
    """What was asked for before it."""

    def argument(self, name: str, place: int) -> Any:
        """Return an argument, however it was given; None where it was not."""
        if name in self.named:
            return self.named[name]
        return self.arguments[place] if place < len(self.arguments) else None


Note: TypeAlias = Callable[[Call], None]


def _nothing() -> None: ...


def _ignore(_: int) -> None: ...


@dataclass(slots=True)
class Standing:
    """What a process is at; forks and spawned processes begin with that of their parent."""

    rank: int = 0
    """That of a program that is not distributed is 0."""

    phase: str = "initialisation"
    epoch: int | None = None
    step: int | None = None
    """Of the batch that is being prepared; in a loader's workers, of its first batch."""


def warn(text: str) -> None:
    """Say something on standard error, if the program has one."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"headrace trace run: {text}\n")


class Watcher:
    """Watches one kind of call; its first error switches it off, with one warning."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_off = False
        self._threads: set[int] = set()
        os.register_at_fork(after_in_child=self._begin_fork)

    def _begin_fork(self) -> None:
        """Forget the threads of the parent but the one that forked, which goes on here."""
        self._threads &= {threading.get_ident()}

    def try_to(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function that watches, and may fail."""
        if self._is_off:
            return
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
            self._is_off = True
            warn(
                f"{self._what} of process {os.getpid()} are not recorded any further: "
                f"{type(error).__name__}: {error}"
            )

    def timed(
        self,
        function: Callable[..., Any],
        note: Note,
        *,
        before: Callable[[], Any] = _nothing,
    ) -> Callable[..., Any]:
        """Return the function so that each call that succeeds is noted.

        What such a call itself calls of functions with this watcher is part of it.

        Args:
            function: To be watched.
            note: Takes what was seen of a call, after it.
            before: Asked before the call; for ``Call.before``. Never fails.
        """

        @functools.wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            if self._is_off or self.is_inside:
                return function(*arguments, **named)
            thread, earlier = threading.get_ident(), before()
            self._threads.add(thread)
            began = time.perf_counter_ns()
            try:
                result = function(*arguments, **named)
            finally:
                took = time.perf_counter_ns() - began
                self._threads.discard(thread)
            self.try_to(note, Call(began, took, result, arguments, named, earlier))
            return result

        return watched

    @property
    def is_inside(self) -> bool:
        """Whether the calling thread is in a call that is noted as a whole."""
        return threading.get_ident() in self._threads

    @property
    def is_anyone_inside(self) -> bool:
        """Whether some thread is."""
        return bool(self._threads)


class Tracer:
    """Writes events to the spool. Thread-safe."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._counting = threading.RLock()
        self._moved = [0, 0]
        self._epoch = 0
        self._epoch_at = -_EPOCH_NS - 1
        self.tallies = Tallies()
        self.standing = inherited_standing()
        os.register_at_fork(after_in_child=self._begin_fork)
        self.has_loader = False
        """Whether the program's steps are those of a loop over a DataLoader."""

        self._settle: Callable[[int], None] = _ignore

    def before_record(self, settle: Callable[[int], None]) -> None:
        """Call a function with the end of each event before it is recorded [ns]."""
        self._settle = settle

    def record(self, kind: str, began: int, took: int, **event: Any) -> None:
        """Record an event.

        Args:
            kind: One of the schema's.
            began: When, by ``time.perf_counter_ns`` [ns].
            took: How long [ns].
            event: Further columns of the schema; None is unknown.
        """
        self._settle(began + took)
        event["kind"] = kind
        event["begin_ns"] = self._epoch_of(began) + began
        event["duration_ns"] = took
        event["rank"] = self.standing.rank
        event["tid"] = threading.get_native_id()
        event["phase"] = self.standing.phase
        self._spool.write(event)

    def _epoch_of(self, moment: int) -> int:
        """Return what ``time.perf_counter_ns`` counts from, as told within the last second [ns]."""
        if moment - self._epoch_at > _EPOCH_NS:
            self._epoch_at = time.perf_counter_ns()
            self._epoch = time.time_ns() - self._epoch_at
        return self._epoch

    def record_request(
        self, began: int, took: int, *, nbytes: int | None, is_write: bool, **columns: Any
    ) -> None:
        """Record a request to storage, or several as one event."""
        with self._counting:
            self._moved[is_write] += nbytes or 0
        self.record("request", began, took, bytes=nbytes, is_write=is_write, **columns)

    def moved_bytes(self) -> tuple[int, int]:
        """Return what all requests so far read, and what they wrote [bytes]."""
        return self._moved[False], self._moved[True]

    def begin_steps(self, *, has_loader: bool) -> None:
        """Take note that the program is at its steps."""
        self.has_loader = self.has_loader or has_loader
        if self.standing.phase == "initialisation":
            self.standing.phase = "iteration"

    def _begin_fork(self) -> None:
        """Forget which batch comes next where a server forks for others: it does not know."""
        self._counting = threading.RLock()
        if any(_FORK_SERVER in word for word in sys.orig_argv):
            self.standing.step = self.standing.epoch = None

    def publish(self) -> None:
        """Let processes that are spawned from now on know what this one is at."""
        told = {"launched": _launched_rank(), **asdict(self.standing)}
        os.environ[PARENT_VARIABLE] = json.dumps(told)


def inherited_standing() -> Standing:
    """Return what the process that spawned this one was at, else what the environment says.

    A process that a launcher made a rank of its own is at nothing yet.
    """
    told = json.loads(os.environ.get(PARENT_VARIABLE, "{}"))
    rank = _launched_rank()
    if told and told.pop("launched") == rank:
        return Standing(**told)
    return Standing(rank=rank or 0, phase=os.environ.get(PHASE_VARIABLE) or "initialisation")


def _launched_rank() -> int | None:
    said = (os.environ.get(name, "") for name in _RANK_VARIABLES)
    return next((int(rank) for rank in said if rank.isdecimal()), None)
