"""The elastic pool of one tier: short loans to jobs in need, in the order in which they asked.

Rules, in the order in which they win over each other:

1. Loans never exceed the pool, and no loan outlives its timer (iterations of the job, or
   seconds when the job stops reporting).
2. While others wait, nobody holds more than a fair part: the pool divided by everybody who
   holds or waits.
3. First come, first served; of those that asked in the same round, the lowest score first.
   A job whose loan ended and that still is in need comes last again.
4. What all fair parts leave over goes to those that asked for more, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.core.media import TierName


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolLimits:
    """How the pool lends."""

    share: float = 0.15
    """Part of each tier that stays outside ordinary quotas, 0 to below 1."""

    iterations: int = 3
    """Iterations of the job after which a loan is reclaimed."""

    slack: float = 2.0
    """A loan ends after ``iterations`` step times times this even without a report."""

    shortest_s: float = 2.0
    """Shortest timer in seconds, for jobs with very short or unknown steps [s]."""

    longest_s: float = 600.0
    """Longest timer in seconds, whatever step time a job claims [s]."""

    least_share: float = 0.02
    """Smallest loan, as part of the pool: less is not worth a ledger entry."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ConfigError(
                f"pool.share={self.share:g} must lie in [0, 1); it is the part of each tier"
                " that is lent instead of given"
            )
        if self.iterations < 1 or self.slack < 1 or not 0 < self.shortest_s <= self.longest_s:
            raise ConfigError(
                f"pool timers (iterations={self.iterations}, slack={self.slack:g},"
                f" shortest_s={self.shortest_s:g}, longest_s={self.longest_s:g}) must be at least"
                " 1, at least 1, above 0 and not below shortest_s"
            )
        if not 0 < self.least_share <= 1:
            raise ConfigError(f"pool.least_share={self.least_share:g} must lie in (0, 1]")

    def timer_s(self, step_time_s: float) -> float:
        """Return the time after which a loan ends whatever is reported [s]."""
        wanted = self.iterations * self.slack * step_time_s
        return min(max(wanted, self.shortest_s), self.longest_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """A job that needs more of the tier than its ordinary quota."""

    job: str
    bytes_per_s: float
    """What it lacks [B/s]."""

    score: float
    """Its health; 0 is the worst."""

    step_time_s: float
    iteration: int
    """Iterations that it has done."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Loan:
    """An open loan."""

    loan: int
    job: str
    tier: TierName
    bytes_per_s: float
    lent_at: float
    """[s]"""

    expires_at: float
    """[s]"""

    iteration: int
    """The job's iteration when it began."""

    iterations: int
    """Iterations until it is reclaimed."""

    score: float
    """The job's health when it was lent."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """A loan that ended: who had what, why, for how long, and why no longer."""

    loan: Loan
    ended_at: float
    """[s]"""

    iterations: int
    """Iterations that the job did meanwhile."""

    reason: str
    """Why it ended."""


class ElasticPool:
    """What one tier lends and to whom.

    Args:
        tier: Its tier.
        limits: Rules of lending.
        number: Names the next loan in the ledger; shared by all pools.
    """

    def __init__(self, tier: TierName, limits: PoolLimits, number: Callable[[], int]) -> None:
        self.tier = tier
        self.size = 0.0
        """What may be lent [B/s]."""
        self._limits = limits
        self._number = number
        self._loans: dict[str, Loan] = {}
        self._arrivals: dict[str, int] = {}
        self._round = 0

    @property
    def lent(self) -> float:
        """What is lent now [B/s]."""
        return sum(loan.bytes_per_s for loan in self._loans.values())

    @property
    def _least(self) -> float:
        """Smallest loan [B/s]."""
        return self._limits.least_share * self.size

    @property
    def loans(self) -> Sequence[Loan]:
        """Open loans, oldest first."""
        return tuple(self._loans.values())

    def held(self, job: str) -> float:
        """Return what a job has borrowed [B/s]."""
        loan = self._loans.get(job)
        return loan.bytes_per_s if loan else 0.0

    def next_expiry(self) -> float:
        """Return when the first timer in seconds runs out; infinite without loans [s]."""
        return min((loan.expires_at for loan in self._loans.values()), default=float("inf"))

    def restore(self, loan: Loan) -> None:
        """Take over a loan that was open before a restart; the pool may be overdrawn for now."""
        self._loans[loan.job] = loan

    def end(self, job: str, *, now: float, iteration: int, reason: str) -> LedgerEntry | None:
        """End a job's loan, if it has one, and forget that it waits."""
        self._arrivals.pop(job, None)
        loan = self._loans.pop(job, None)
        if loan is None:
            return None
        iterations = max(iteration - loan.iteration, 0)
        return LedgerEntry(loan=loan, ended_at=now, iterations=iterations, reason=reason)

    def run_out(self, job: str, *, now: float, iteration: int) -> LedgerEntry | None:
        """End a job's loan if one of its timers ran out."""
        loan = self._loans.get(job)
        if loan is None:
            return None
        if iteration - loan.iteration >= loan.iterations:
            reason = f"its timer of {loan.iterations} iterations ran out"
        elif now >= loan.expires_at:
            held = loan.expires_at - loan.lent_at
            reason = f"no {loan.iterations} iterations were reported within its {held:.3g} s"
        else:
            return None
        return self.end(job, now=now, iteration=iteration, reason=reason)

    def resize(self, bytes_per_s: float, *, now: float) -> list[LedgerEntry]:
        """Set what may be lent; return the youngest loans, ended, that no longer fit."""
        self.size = bytes_per_s
        return self._end_youngest(now)

    def settle(self, asks: Sequence[Ask], now: float) -> tuple[list[LedgerEntry], list[Loan]]:
        """Serve those that ask in this round; who no longer asks no longer waits.

        Returns:
            Loans ended because others wait for their fair part, and new loans.
        """
        self._round += 1
        queue = self._queue([ask for ask in asks if ask.job not in self._loans])
        holders = {ask.job: ask for ask in asks if ask.job in self._loans}
        if not queue:
            return [], []
        fair = max(self.size / (len(queue) + len(self._loans)), self._least)
        ended = self._end_beyond(fair, queue, holders, now)
        queue = self._queue(
            [*queue, *(holders[e.loan.job] for e in ended if e.loan.job in holders)]
        )
        amounts = self._amounts(queue, fair)
        return ended, [
            self._lend(ask, amount, now)
            for ask, amount in zip(queue, amounts, strict=True)
            if amount
        ]

    def _queue(self, asks: Sequence[Ask]) -> list[Ask]:
        """Return the asks in the order in which they are served, and remember who waits."""
        self._arrivals = {a.job: self._arrivals.get(a.job, self._round) for a in asks}
        return sorted(asks, key=lambda ask: (self._arrivals[ask.job], ask.score, ask.job))

    def _end_beyond(
        self, fair: float, queue: Sequence[Ask], holders: dict[str, Ask], now: float
    ) -> list[LedgerEntry]:
        """End loans beyond the fair part, largest first, until the waiting find theirs free.

        A holder whose loan ends waits too, so others' loans may have to end for its fair part.
        """
        wanted = sum(min(ask.bytes_per_s, fair) for ask in queue)
        ended: list[LedgerEntry] = []
        for loan in sorted(self._loans.values(), key=lambda o: (-o.bytes_per_s, o.loan)):
            if loan.bytes_per_s <= fair * 1.001 or self.size - self.lent >= wanted:
                break
            asking = holders.get(loan.job)
            iteration = asking.iteration if asking else loan.iteration
            reason = f"{len(queue)} jobs wait and the fair part is {fair:.4g} B/s now"
            entry = self.end(loan.job, now=now, iteration=iteration, reason=reason)
            ended += [entry] if entry else []
            wanted += min(asking.bytes_per_s, fair) if asking else 0.0
        return ended

    def _amounts(self, queue: Sequence[Ask], fair: float) -> list[float]:
        """Return what each gets: its fair part in order, then what is left over in order."""
        free = max(self.size - self.lent, 0.0)
        amounts = []
        for ask in queue:
            amount = min(ask.bytes_per_s, fair, free)
            amounts.append(amount if amount >= min(self._least, ask.bytes_per_s) else 0.0)
            free -= amounts[-1]
        for i, ask in enumerate(queue):
            more = min(ask.bytes_per_s - amounts[i], free) if amounts[i] else 0.0
            amounts[i] += more
            free -= more
        return amounts

    def _lend(self, ask: Ask, amount: float, now: float) -> Loan:
        del self._arrivals[ask.job]
        loan = Loan(
            loan=self._number(),
            job=ask.job,
            tier=self.tier,
            bytes_per_s=amount,
            lent_at=now,
            expires_at=now + self._limits.timer_s(ask.step_time_s),
            iteration=ask.iteration,
            iterations=self._limits.iterations,
            score=ask.score,
            reason=ask.reason,
        )
        self._loans[ask.job] = loan
        return loan

    def _end_youngest(self, now: float) -> list[LedgerEntry]:
        ended = []
        while self._loans and self.lent > self.size * (1 + 1e-9):
            loan = next(reversed(self._loans.values()))
            reason = f"the tier's pool shrank to {self.size:.4g} B/s"
            entry = self.end(loan.job, now=now, iteration=loan.iteration, reason=reason)
            ended += [entry] if entry else []
        return ended
