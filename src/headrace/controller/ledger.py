"""What was lent, refused and decided, newest last, as far back as there is room. No I/O.

An entry is replaced when it changes (a loan ends, a refusal repeats), so each is written to
the journal under its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from headrace.policy.reservation.events import Lend, Reclaim, Refuse
from headrace.wire.estate import Decision, DecisionKind, LedgerEntry

K = TypeVar("K", LedgerEntry, Decision)
Written = Callable[[int, msgspec.Struct | None], None]
"""Told of each row that is new, was changed (the row) or was dropped (None)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Which rows are asked for."""

    job: str | None = None
    tier: str | None = None
    kind: str | None = None
    open_only: bool = False
    since: float | None = None
    """Rows that changed then or later [s since 1970]."""

    before: int | None = None
    limit: int = 100
    """Most rows, 1 or more."""

    def __post_init__(self) -> None:
        if self.limit < 1 or math.isnan(self.since or 0.0):
            raise ValueError(f"since={self.since} or limit={self.limit} is out of range")

    def fits(self, row: Any) -> bool:
        """Return whether a row is asked for."""
        return (
            self.job in (None, row.job)
            and self.tier in (None, row.tier)
            and self.kind in (None, row.kind)
            and (not self.open_only or row.is_open)
            and (self.since is None or _changed_at(row) >= self.since)
        )


class Rows(Generic[K]):
    """The newest rows, by their numbers.

    Args:
        most: Rows that are kept.
        written: Told of each change.
        is_lasting: Whether a row stays, however many come after it.
    """

    def __init__(
        self, most: int, written: Written, is_lasting: Callable[[K], bool] = lambda _: False
    ) -> None:
        self._most = most
        self._written = written
        self._is_lasting: Callable[[K], bool] = is_lasting
        self._rows: dict[int, K] = {}
        self._next = 1

    def restore(self, rows: Iterable[tuple[int, K]]) -> None:
        """Take over what the journal has, in the order of the numbers."""
        self._rows = dict(rows)
        self._next = max(self._rows, default=0) + 1

    def number(self) -> int:
        """Return a new row's number."""
        self._next += 1
        return self._next - 1

    def put(self, number: int, row: K) -> None:
        """Add a row, or replace it; the oldest go when there are too many."""
        self._rows[number] = row
        self._written(number, row)
        excess = len(self._rows) - self._most
        if excess > 0:
            passing = (n for n, known in self._rows.items() if not self._is_lasting(known))
            for oldest in list(islice(passing, excess)):
                del self._rows[oldest]
                self._written(oldest, None)

    def get(self, number: int) -> K | None:
        """Return a row, if it is still there."""
        return self._rows.get(number)

    def __iter__(self) -> Iterator[K]:
        """Return the rows, oldest first."""
        return iter(self._rows.values())

    def find(self, query: Query) -> tuple[list[K], int | None]:
        """Return the rows asked for, newest first, and where older ones begin, if any."""
        found = (
            (number, row)
            for number, row in reversed(self._rows.items())
            if (query.before is None or number < query.before) and query.fits(row)
        )
        page = list(islice(found, query.limit))
        more = next(found, None) is not None
        return [row for _, row in page], page[-1][0] if page and more else None


class Ledger:
    """Loans and refusals: the newest, and all loans that are open."""

    def __init__(self, most: int, written: Written) -> None:
        self.rows: Rows[LedgerEntry] = Rows(most, written, lambda entry: entry.is_open)
        self._open: dict[int, int] = {}
        self._refused: dict[tuple[str, str], int] = {}

    def restore(self, entries: Iterable[LedgerEntry]) -> None:
        """Take over what the journal has."""
        kept = list(entries)
        self.rows.restore((entry.entry, entry) for entry in kept)
        self._open = {e.loan: e.entry for e in kept if e.is_open and e.loan is not None}

    @property
    def next_loan(self) -> int:
        """A number above those of all loans that are remembered."""
        return max((row.loan or 0 for row in self.rows), default=0) + 1

    def open_loans(self, job: str | None = None) -> list[LedgerEntry]:
        """Return the open loans, of one job or of all, oldest first."""
        found = (self.rows.get(number) for number in self._open.values())
        return [row for row in found if row is not None and job in (None, row.job)]

    def lend(self, action: Lend, *, title: str, iteration: int, at: float) -> None:
        """Write down that a loan began."""
        number = self.rows.number()
        self._open[action.loan] = number
        self._refused.pop((action.job, action.tier), None)
        entry = LedgerEntry(
            entry=number,
            kind="loan",
            job=action.job,
            title=title,
            tier=action.tier,
            began_at=at,
            score=action.score,
            reason=action.reason,
            loan=action.loan,
            bytes_per_s=action.bytes_per_s,
            iteration=iteration,
            iterations=action.iterations,
            expires_at=at + action.expires_in_s,
        )
        self.rows.put(number, entry)

    def reclaim(self, action: Reclaim, *, at: float) -> None:
        """Write down that a loan ended."""
        entry = self.rows.get(self._open.get(action.loan, -1))
        if entry is not None:
            self.end(entry, at=at, reason=action.reason)

    def end(self, entry: LedgerEntry, *, at: float, reason: str) -> None:
        """Write down that an open loan ended."""
        self._open = {loan: number for loan, number in self._open.items() if number != entry.entry}
        self.rows.put(entry.entry, msgspec.structs.replace(entry, ended_at=at, end_reason=reason))

    def refuse(self, action: Refuse, *, title: str, at: float) -> None:
        """Write down a refusal; one that only repeats the one before is counted there."""
        key = (action.job, action.tier)
        last = self.rows.get(self._refused.get(key, -1))
        if last is not None and last.reason == action.reason:
            repeated = msgspec.structs.replace(last, ended_at=at, times=last.times + 1)
            self.rows.put(last.entry, repeated)
            return
        number = self._refused[key] = self.rows.number()
        entry = LedgerEntry(
            entry=number,
            kind="refusal",
            job=action.job,
            title=title,
            tier=action.tier,
            began_at=at,
            ended_at=at,
            score=action.score,
            reason=action.reason,
        )
        self.rows.put(number, entry)

    def forget_job(self, job: str) -> None:
        """Begin a new row when a job of this name is refused again."""
        self._refused = {key: row for key, row in self._refused.items() if key[0] != job}


class Decisions:
    """Everything else that was decided."""

    def __init__(self, most: int, written: Written) -> None:
        self.rows: Rows[Decision] = Rows(most, written)

    def restore(self, decisions: Iterable[Decision]) -> None:
        """Take over what the journal has."""
        self.rows.restore((one.decision, one) for one in decisions)

    def note(
        self,
        kind: DecisionKind,
        job: str,
        what: str,
        reason: str,
        *,
        at: float,
        tier: str = "",
        bytes_per_s: float | None = None,
    ) -> None:
        """Write down one decision."""
        number = self.rows.number()
        decision = Decision(
            decision=number,
            at=at,
            kind=kind,
            job=job,
            what=what,
            reason=reason,
            tier=tier,
            bytes_per_s=bytes_per_s,
        )
        self.rows.put(number, decision)


def _changed_at(row: LedgerEntry | Decision) -> float:
    if isinstance(row, Decision):
        return row.at
    return row.ended_at if row.ended_at is not None else row.began_at
