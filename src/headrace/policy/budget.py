"""A byte budget that holds over every second, and who may take from it first.

A piece counts from the moment it is granted until a second after it was moved: whatever part of
that time its bytes cross the link in, no window of one second sees more than the budget. Grants
are spread over the second, so that a link is not met by a second's bytes at once. Time is a
parameter; nothing here waits.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque

from headrace.core.errors import ConfigError

WINDOW_S = 1.0
"""The budget holds over every window of this length [s]."""

LEAST_BYTES_PER_S = 256 << 10
"""A budget below this would be taken by requests alone [B/s]."""

REQUEST_BYTES = 4 << 10
"""What a piece costs besides its bytes: a file is looked up, asked for and answered [bytes]. So
thousands of small files keep to the budget too."""

_PIECES = 32
"""A piece is this part of a window's bytes at most, lest few of them fill it unevenly."""

_LATE_S = 0.02
"""Time that a thread may be late to take what it could have taken, without a loss [s]."""


class Grant:
    """Leave to move one piece; it counts until a second after it ended."""

    __slots__ = ("cost", "ended")

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.ended = False


class WindowBudget:
    """Bytes per second, kept over every second. Not thread-safe.

    Args:
        bytes_per_s: Most bytes of any window, requests included [B/s].

    Raises:
        ConfigError: it is less than can be kept to.
    """

    def __init__(self, bytes_per_s: float) -> None:
        if not LEAST_BYTES_PER_S <= bytes_per_s < math.inf:  # nor is NaN
            raise ConfigError(
                f"a budget of {bytes_per_s:g} B/s cannot be kept to; give {LEAST_BYTES_PER_S} "
                "B/s (256KiB) or more, or no budget where nothing is to be limited"
            )
        self._rate = float(bytes_per_s)
        self._held = 0.0
        self._leaving: deque[tuple[float, float]] = deque()
        self._next_at = -math.inf

    @property
    def bytes_per_s(self) -> float:
        """Most bytes of any second [B/s]."""
        return self._rate

    @property
    def piece_bytes(self) -> int:
        """Longest piece that may be asked for [bytes]."""
        return int(self._rate * WINDOW_S / _PIECES) - REQUEST_BYTES

    def take_nowait(self, nbytes: int, now: float) -> Grant | None:
        """Return leave to move a piece, or None when it has to wait.

        Raises:
            ConfigError: it is longer than ``piece_bytes``.
        """
        if nbytes > self.piece_bytes:
            raise ConfigError(
                f"a piece of {nbytes} B is too long for a budget of {self._rate:g} B/s; ask for "
                f"{self.piece_bytes} B at most"
            )
        self._settle(now)
        cost = float(nbytes + REQUEST_BYTES)
        if now < self._next_at or self._held + cost > self._rate * WINDOW_S:
            return None
        self._held += cost
        self._next_at = max(self._next_at, now - _LATE_S) + cost / self._rate
        return Grant(cost)

    def share_nowait(self, bytes_per_s: float, now: float) -> Grant | None:
        """Return leave for somebody else to move so many bytes in any second until it is ended.

        It takes its part of every second from what is granted here. None: it has to wait.
        """
        self._settle(now)
        cost = bytes_per_s * WINDOW_S
        if self._held + cost > self._rate * WINDOW_S:
            return None
        self._held += cost
        return Grant(cost)

    def end(self, grant: Grant, now: float) -> None:
        """Tell that a piece was moved, or given up; not an error a second time."""
        if not grant.ended:
            grant.ended = True
            self._leaving.append((now + WINDOW_S, grant.cost))

    def free_at(self, nbytes: int, now: float) -> float:
        """Return when a piece can be granted if no other is [s]; never, while others must end."""
        return max(self._next_at, self._room_at(nbytes + REQUEST_BYTES, now))

    def share_free_at(self, bytes_per_s: float, now: float) -> float:
        """Return when a share can be had if nothing is granted before [s]; as ``free_at``."""
        return self._room_at(bytes_per_s * WINDOW_S, now)

    def _room_at(self, cost: float, now: float) -> float:
        self._settle(now)
        excess = self._held + cost - self._rate * WINDOW_S
        at = now
        for leaves_at, leaving in self._leaving:
            if excess <= 0:
                break
            excess -= leaving
            at = max(at, leaves_at)
        return at if excess <= 0 else math.inf

    def _settle(self, now: float) -> None:
        while self._leaving and self._leaving[0][0] <= now:
            self._held -= self._leaving.popleft()[1]


class Ticket:
    """A place in the line for one piece, or for a share."""

    __slots__ = ("is_share", "nbytes", "place")

    def __init__(self, nbytes: int, place: tuple[float, int], *, is_share: bool) -> None:
        self.nbytes = nbytes
        self.place = place
        self.is_share = is_share


class BudgetLine:
    """Who is granted the next piece: the lowest rank first, then who asked first.

    Each copy has one piece in the line at most, so those of one rank take turns. Not thread-safe.
    """

    def __init__(self, budget: WindowBudget) -> None:
        self.budget = budget
        self._numbers = itertools.count()
        self._line: list[tuple[tuple[float, int], Ticket]] = []
        self._gone: set[Ticket] = set()

    def join(self, nbytes: int, rank: float, *, is_share: bool = False) -> Ticket:
        """Ask for a piece, or for a share of so many bytes a second; a lower rank goes first."""
        ticket = Ticket(nbytes, (rank, next(self._numbers)), is_share=is_share)
        heapq.heappush(self._line, (ticket.place, ticket))
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Ask no more."""
        self._gone.add(ticket)
        self._drop_gone()

    def take_nowait(self, ticket: Ticket, now: float) -> Grant | None:
        """Return leave for what was asked if it is the first in the line and there is room."""
        if self.first() is not ticket:
            return None
        take = self.budget.share_nowait if ticket.is_share else self.budget.take_nowait
        grant = take(ticket.nbytes, now)
        if grant is not None:
            self.leave(ticket)
        return grant

    def free_at(self, ticket: Ticket, now: float) -> float:
        """Return when there is room for what was asked [s]; never, while others must end."""
        budget = self.budget
        return (budget.share_free_at if ticket.is_share else budget.free_at)(ticket.nbytes, now)

    def first(self) -> Ticket | None:
        """Return who is served next."""
        return self._line[0][1] if self._line else None

    def _drop_gone(self) -> None:
        while self._line and self._line[0][1] in self._gone:
            self._gone.discard(heapq.heappop(self._line)[1])
