"""Lets many threads share one budget: each waits before a piece until it may move it.

Who waits for an urgent checkpoint waits here too, between two pieces; after a while it is told to
put its chunk back, so that nothing is held open for long.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.controller.replicating.rate import GrowthRate
from headrace.core.clock import Clock, SystemClock
from headrace.policy.budget import LEAST_BYTES_PER_S, BudgetLine, Grant, Ticket, WindowBudget
from headrace.policy.replication.events import CopyKey

PIECE_BYTES = 4 << 20
"""Longest piece [bytes]: with 30 ms to ask for each, a thread still moves more than 60 MB/s."""

LEAST_PIECE_BYTES = 256 << 10
"""Shortest piece, but for the end of a chunk [bytes]."""

IN_THE_AIR_S = 0.25
"""All pieces in the air cross the link in about this time [s]: so long does it take until an
urgent one has the link to itself. Round trips must be shorter, else pieces would stay short."""

GIVE_WAY_S = 20.0
"""A chunk that had to give way for so long is put back [s]."""

SHARES = 8
"""Most parts of a budget; an agent that sends a chunk has one."""

_OF_A_SHARE = 0.9
"""An agent is told this part of its share: where one follows another in the same second, each has
moved what its own pace allows, a piece more, and what it may be late by."""

_URGENT = -math.inf


class StoppedError(Exception):
    """A chunk is not to be sent any more."""


class GaveWayError(Exception):
    """A chunk had to give way for so long that it is to be sent later."""


class SharedBudget:
    """The bytes that all chunks of a process may move. Thread-safe.

    Args:
        bytes_per_s: Most in any second [B/s]; None: nothing is limited.
        clock: Monotonic time.
        give_way_s: Longest wait for urgent ones [s].
    """

    def __init__(
        self,
        bytes_per_s: float | None,
        *,
        clock: Clock | None = None,
        give_way_s: float = GIVE_WAY_S,
    ) -> None:
        self._clock = clock or SystemClock()
        self._give_way_s = give_way_s
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._line = None if bytes_per_s is None else BudgetLine(WindowBudget(bytes_per_s))
        self._waiting: dict[Ticket, threading.Condition] = {}
        self._urgent: frozenset[CopyKey] | None = None
        self._takers: set[Taker] = set()
        self._spare: dict[int, Grant] = {}
        """Shares that nobody has at the moment, by their bytes per second."""

        self._moved_bytes = 0
        self._growth = GrowthRate()

    @property
    def bytes_per_s(self) -> float | None:
        """Most in any second [B/s]; None: nothing is limited."""
        return None if self._line is None else self._line.budget.bytes_per_s

    def piece_bytes(self) -> int:
        """Return the longest piece to be asked for now [bytes]."""
        with self._lock:
            streams = max(1, sum(len(taker.threads) for taker in self._takers))
            fitting = int(self._growth.per_s * IN_THE_AIR_S / streams)
        piece = min(max(fitting, LEAST_PIECE_BYTES), PIECE_BYTES)
        return piece if self._line is None else min(piece, self._line.budget.piece_bytes)

    def give_way(self, to: frozenset[CopyKey] | None) -> None:
        """Let only chunks of these checkpoints move; None: all."""
        with self._lock:
            self._urgent = to
            self._wake_all()

    @contextmanager
    def taker(self, key: CopyKey, deadline: float) -> Iterator[Taker]:
        """Give what one chunk asks before each piece; what it took ends with the block."""
        taker = Taker(self, key, deadline)
        with self._lock:
            self._takers.add(taker)
        try:
            yield taker
        finally:
            with self._lock:
                self._takers.discard(taker)
            taker.stop()

    @contextmanager
    def share(self, taker: Taker) -> Iterator[float | None]:
        """Give a part of the budget to somebody who sends a chunk elsewhere, until the block ends.

        Yields:
            Bytes that may be moved in any second [B/s]; None: nothing is limited.

        Raises:
            StoppedError, GaveWayError: as ``take``.
        """
        if self._line is None:
            self.check(taker)
            yield None
            return
        with self._lock:
            nbytes = self._share_bytes(self._line.budget.bytes_per_s)
            grant = self._spare.pop(nbytes, None) if self._may_move(taker) else None
            grant = grant or self._wait(taker, nbytes, is_share=True)
        assert grant is not None
        try:
            yield _OF_A_SHARE * nbytes
        except BaseException:
            self.end(grant)  # whoever has it may go on for a moment
            raise
        self._keep_spare(nbytes, grant)

    def _share_bytes(self, bytes_per_s: float) -> int:
        """Return a share that lets all who may move now have one: a power of two of them."""
        active = sum(self._may_move(taker) for taker in self._takers)
        parts = min(SHARES, 1 << max(0, active - 1).bit_length())
        return max(int(bytes_per_s / parts), LEAST_BYTES_PER_S)

    def _may_move(self, taker: Taker) -> bool:
        return not (taker.stopped or self._must_give_way(taker))

    def _keep_spare(self, nbytes: int, grant: Grant) -> None:
        """Leave a share to whoever asks next: ended, it would lie idle for a second."""
        with self._lock:
            other = self._spare.pop(nbytes, None)
            self._spare[nbytes] = grant
            if other is not None:
                self._end(other)
            self._call_first()

    def _end_spares(self) -> None:
        while self._spare:
            self._end(self._spare.popitem()[1])

    def check(self, taker: Taker) -> None:
        """Look whether a chunk that is sent elsewhere may go on.

        Raises:
            StoppedError: it may not.
            GaveWayError: it is to be sent later, since something urgent came.
        """
        with self._lock:
            if self._must_give_way(taker):
                raise GaveWayError
            if taker.stopped:
                raise StoppedError

    # What takers call

    def take(self, taker: Taker, nbytes: int) -> Grant | None:
        """Wait until a piece may be moved.

        Raises:
            StoppedError: it is not to be moved any more.
            GaveWayError: it had to wait for urgent ones for too long.
        """
        with self._lock:
            grant = self._wait(taker, nbytes)
            self._moved_bytes += nbytes
            self._growth.sample(self._moved_bytes, self._clock.now())
            return grant

    def end(self, grant: Grant) -> None:
        """Tell that a piece was moved."""
        with self._lock:
            self._end(grant)
            self._call_first()

    def _end(self, grant: Grant) -> None:
        assert self._line is not None
        self._line.budget.end(grant, self._clock.now())

    def wake(self) -> None:
        """Let all who wait look whether they were stopped."""
        with self._lock:
            self._wake_all()

    def _wake_all(self) -> None:
        self._changed.notify_all()
        for waiting in self._waiting.values():
            waiting.notify()

    def _wait(self, taker: Taker, nbytes: int, *, is_share: bool = False) -> Grant | None:
        while True:
            self._let_pass(taker)
            if self._line is None:
                return None
            rank = _URGENT if taker.key in (self._urgent or ()) else taker.deadline
            ticket = self._line.join(nbytes, rank, is_share=is_share)
            if (grant := self._wait_in_line(self._line, taker, ticket)) is not None:
                return grant

    def _let_pass(self, taker: Taker) -> None:
        """Wait while urgent ones go first."""
        until = self._clock.now() + self._give_way_s
        while self._must_give_way(taker):
            left_s = until - self._clock.now()
            if left_s <= 0:
                raise GaveWayError
            self._changed.wait(left_s)
        if taker.stopped:
            raise StoppedError

    def _must_give_way(self, taker: Taker) -> bool:
        return not (self._urgent is None or taker.key in self._urgent or taker.stopped)

    def _wait_in_line(self, line: BudgetLine, taker: Taker, ticket: Ticket) -> Grant | None:
        """Return leave for what was asked; None: somebody urgent came, or it was stopped."""
        called = self._waiting[ticket] = threading.Condition(self._lock)
        grant = None
        try:
            while self._may_move(taker):
                now = self._clock.now()
                grant = line.take_nowait(ticket, now)
                if grant is not None:
                    return grant
                self._end_spares()
                called.wait(self._wait_s(line, ticket, now))
            return None
        finally:
            del self._waiting[ticket]
            if grant is None:
                line.leave(ticket)
            self._call_first()

    def _wait_s(self, line: BudgetLine, ticket: Ticket, now: float) -> float | None:
        """Return for how long to wait [s]; None: until called."""
        if line.first() is not ticket:
            return None
        free_at = line.free_at(ticket, now)
        return None if free_at == math.inf else max(0.0, free_at - now)

    def _call_first(self) -> None:
        first = None if self._line is None else self._line.first()
        if first in self._waiting:
            self._waiting[first].notify()


class Taker:
    """What one chunk asks before each piece: ``taker(nbytes)`` waits. Thread-safe.

    Each thread has one piece in the air at most: when it asks for the next, the last was moved.
    """

    def __init__(self, budget: SharedBudget, key: CopyKey, deadline: float) -> None:
        self.key = key
        self.deadline = deadline
        self.stopped = False
        self.moved_bytes = 0
        """Asked for so far [bytes]."""

        self.threads: set[int] = set()
        """That asked so far."""

        self._budget = budget
        self._grants: dict[int, Grant] = {}

    def __call__(self, nbytes: int) -> None:
        """Wait until a piece may be moved.

        Raises:
            StoppedError, GaveWayError: it may not.
        """
        thread = threading.get_ident()
        self.threads.add(thread)
        before = self._grants.pop(thread, None)
        if before is not None:
            self._budget.end(before)
        grant = self._budget.take(self, nbytes)
        self.moved_bytes += nbytes
        if grant is not None:
            self._grants[thread] = grant

    def moved(self, nbytes: int) -> None:
        """Take note of what somebody else moved for the chunk.

        Raises:
            StoppedError, GaveWayError: it is not to go on.
        """
        self.moved_bytes += nbytes
        self._budget.check(self)

    def stop(self) -> None:
        """Let nothing more be moved; what was granted counts as moved."""
        self.stopped = True
        while self._grants:
            self._budget.end(self._grants.popitem()[1])
        self._budget.wake()
