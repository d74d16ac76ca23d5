"""Gives storage bandwidth where an accelerator would otherwise wait.

Events go in, actions come out; controller and simulator run the same object. Applied in
their order, the actions never hand out more of a tier than it has, not even in between.

Bandwidth is given in four steps, for every tier alike:

1. urgent checkpoint bursts, as far as guaranteed minima are kept;
2. ordinary quotas by weighted max-min over what the elastic pool leaves: what known deadlines
   need first, then what fills queues;
3. loans from the pool to jobs in need that lack something;
4. what is over is spread over everybody, so nobody is throttled while a tier idles; it is
   taken back within one round when somebody needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import assert_never

from headrace.core.media import Media, TierName
from headrace.policy.reservation.account import Account
from headrace.policy.reservation.bursts import Burst, Bursts
from headrace.policy.reservation.events import (
    Action,
    BurstAnnounced,
    BurstEnded,
    Event,
    HealthReported,
    JobJoined,
    JobLeft,
    Reclaim,
    SetBurstRate,
    SetReordering,
    Tick,
    TierChanged,
)
from headrace.policy.reservation.limits import ReservationLimits
from headrace.policy.reservation.pool import Loan
from headrace.policy.reservation.rounds import Round, reclaimed
from headrace.policy.reservation.snapshot import Snapshot, job_state, tier_state
from headrace.policy.reservation.tier import Tier

_NEVER = float("inf")
_REMEMBERED = 256
"""Jobs that left and are known again when they come back; the latest ones."""


class Arbiter:
    """Divides the bandwidth of an estate's tiers over jobs and checkpoint bursts.

    Not safe for several threads at once.
    """

    def __init__(self, limits: ReservationLimits | None = None) -> None:
        self._limits = limits or ReservationLimits()
        self._numbers = count(1)
        self._media: dict[TierName, Media] = {}
        self._tiers: dict[TierName, Tier] = {}
        self._accounts: dict[str, Account] = {}
        self._left: dict[str, Account] = {}
        self._bursts = Bursts(self._limits.bursts)
        self._is_due = False
        self._is_urgent = False
        self._divided_at = -_NEVER
        self._next_expiry = _NEVER

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in an event and return what is to be done, in this order.

        Raises:
            ReportError: A report cannot be true; nothing changed.
        """
        actions = self._take_in(event, now)
        if now >= self._next_expiry:
            actions += self._expire(now)
        if self._is_time(now):
            actions += self._divide(now)
        return actions

    def restore(self, loans: Sequence[Loan], *, next_loan: int = 1) -> list[Action]:
        """Take over loans that were open before a restart, after tiers and jobs were told.

        Args:
            loans: Open loans.
            next_loan: Smallest number that was not given to any loan yet.

        Returns:
            The ends of those whose job or tier is not known any more.
        """
        ended: list[Action] = []
        for loan in loans:
            next_loan = max(next_loan, loan.loan + 1)
            if loan.tier in self._tiers and loan.job in self._accounts:
                self._tiers[loan.tier].pool.restore(loan)
            else:
                reason = f"{loan.tier} is not offered any more, or {loan.job} did not come back"
                ended.append(Reclaim(loan=loan.loan, job=loan.job, tier=loan.tier, reason=reason))
        self._numbers = count(next_loan)
        self._next_expiry = self._first_expiry()
        self._is_due = True
        return ended

    def snapshot(self) -> Snapshot:
        """Return the books as they are."""
        tiers, bursts = self._tiers.values(), self._bursts.ordered()
        accounts = self._accounts.values()
        return Snapshot(
            jobs={a.job: job_state(a, tiers, self._bursts.of(a.job)) for a in accounts},
            tiers={tier.name: tier_state(tier, accounts, bursts) for tier in tiers},
        )

    def _take_in(self, event: Event, now: float) -> list[Action]:
        match event:
            case HealthReported():
                return self._report(event, now)
            case Tick():
                self._is_due |= self._moves_by_itself(now)
            case TierChanged():
                return self._change_tier(event, now)
            case JobJoined():
                return self._join(event, now)
            case JobLeft():
                return self._leave(event.job, now)
            case BurstAnnounced():
                return self._announce_burst(event, now)
            case BurstEnded():
                self._bursts.end(event.job, event.burst)
                self._is_urgent = True
            case _:
                assert_never(event)
        return []

    def _is_time(self, now: float) -> bool:
        """Return whether quotas are divided now: at once when something is urgent, or in turn."""
        in_turn = self._is_due and now >= self._divided_at + self._limits.round_s
        return self._is_urgent or in_turn

    def _moves_by_itself(self, now: float) -> bool:
        """Return whether needs change although, or because, nobody says anything."""
        return bool(self._bursts) or any(
            account.is_preparing or account.is_silent(now) > account.is_missed
            for account in self._accounts.values()
        )

    def _report(self, event: HealthReported, now: float) -> list[Action]:
        account = self._accounts.get(event.job)
        if account is None:
            return []
        if not account.hosts.report(event.host, event.indicators, now):
            return []
        self._is_urgent |= account.is_missed
        actions = account.end_iteration(now)
        for tier in self._tiers.values():
            if tier.pool.held(account.job):
                ended = self._end_loan_in_time(tier, account, now)
                actions += ended
                # Were it to wait for the next round, those who report right after one would be
                # without a loan for longer than those right before.
                self._is_urgent |= bool(ended) and account.score < self._limits.lend_below
        self._is_due = self._is_due or bool(actions) or self._is_news(account)
        return actions

    def _end_loan_in_time(self, tier: Tier, account: Account, now: float) -> list[Action]:
        """End a loan whose timer ran out; what it added to the quota is spare from now on."""
        entry = tier.pool.run_out(account.job, now=now, iteration=account.iteration)
        return [reclaimed(entry)] if entry else []

    def _expire(self, now: float) -> list[Action]:
        """End all loans that ran out of time."""
        actions: list[Action] = []
        for tier in self._tiers.values():
            for loan in tier.pool.loans:
                actions += self._end_loan_in_time(tier, self._accounts[loan.job], now)
        self._next_expiry = self._first_expiry()
        self._is_due = True
        return actions

    def _is_news(self, account: Account) -> bool:
        """Return whether what a job asks for now may change what anybody has."""
        tolerance = self._limits.tolerance
        for name, tier in self._tiers.items():
            asked, divided = account.asked.get(name, 0.0), account.divided.get(name, 0.0)
            lacks = asked > account.quotas.get(name, 0.0) * (1.0 + tolerance)
            if lacks and abs(asked - divided) > tolerance * divided:
                return True
            if tier.is_short and asked < divided * (1.0 - 2.5 * tolerance):
                return True
        return False

    def _change_tier(self, event: TierChanged, now: float) -> list[Action]:
        self._is_urgent = True
        tier = self._tiers.get(event.tier)
        if event.bytes_per_s <= 0:
            return self._remove_tier(event.tier, now)
        self._media[event.tier] = event.media
        if tier is None:
            self._tiers[event.tier] = Tier(event, self._limits, self._number)
        else:
            tier.media, tier.bytes_per_s = event.media, event.bytes_per_s
        return []

    def _number(self) -> int:
        return next(self._numbers)

    def _remove_tier(self, name: TierName, now: float) -> list[Action]:
        """Forget a tier, its loans and everybody's quotas on it."""
        tier = self._tiers.pop(name, None)
        if tier is None:
            return []
        self._media.pop(name)
        ended = tier.pool.resize(0.0, now=now)
        for account in self._accounts.values():
            account.forget(name)
        return [reclaimed(entry) for entry in ended]

    def _join(self, event: JobJoined, now: float) -> list[Action]:
        """Open a job's books; one that runs only changes its weight and guarantees.

        One that announces its first batches, or a start to come, begins anew, as does one that
        comes back: it keeps the quotas in force and what was learnt of it, and nothing else. What
        was in force for the run before says nothing of what this one needs.
        """
        known = self._accounts.get(event.job)
        before = known or self._left.pop(event.data_path or event.job, None)
        if before is None:
            self._accounts[event.job] = Account(event, self._limits, self._media, now)
            self._divide_soon(now, at_once=not event.quotas)
            return []
        self._is_urgent = True
        if known is not None and not (event.upcoming_bytes or event.begins_in_s):
            known.rejoin(event)
            return []
        again = before.next_run(replace(event, quotas={}), now)
        again.quotas = dict(event.quotas) if known is None else known.quotas
        self._accounts[event.job] = again
        if known is None or not known.is_reordering:
            return []
        return [SetReordering(job=event.job, enabled=False, reason="the job began anew")]

    def _divide_soon(self, now: float, *, at_once: bool) -> None:
        """Divide for a new job: at once, or after a round when it came with quotas in force.

        After a restart others follow that have quotas too: until they are known, what they
        have must not be given away.
        """
        self._is_urgent = self._is_urgent or at_once
        if not at_once:
            self._is_due, self._divided_at = True, now

    def _leave(self, job: str, now: float) -> list[Action]:
        account = self._accounts.pop(job, None)
        if account is None:
            return []
        self._is_urgent = True
        self._left[account.data_path] = account
        if len(self._left) > _REMEMBERED:
            self._left.pop(next(iter(self._left)))
        self._bursts.end_all(job)
        ended = [
            tier.pool.end(job, now=now, iteration=account.iteration, reason="the job left")
            for tier in self._tiers.values()
        ]
        return [reclaimed(entry) for entry in ended if entry]

    def _divide(self, now: float) -> list[Action]:
        """Divide all tiers anew."""
        actions = self._advance_bursts(now)
        congested = [a for a in self._accounts.values() if a.mode == "congestion"]
        for tier in self._tiers.values():
            tier.is_congested = any(account.blames(tier.name) for account in congested)
        self._is_due = self._is_urgent = False
        self._divided_at = now
        accounts = list(self._accounts.values())
        for account in accounts:
            account.is_missed = account.is_silent(now)
        bursts = [burst for burst in self._bursts.ordered() if burst.tier in self._tiers]
        if self._tiers and (accounts or bursts):
            for account in accounts:
                account.forecast(now)
            tiers = list(self._tiers.values())
            actions += Round(tiers, accounts, bursts, self._limits, now).divide()
        for account in accounts:
            account.divided = account.asked
        self._next_expiry = self._first_expiry()
        return actions

    def _announce_burst(self, event: BurstAnnounced, now: float) -> list[Action]:
        self._is_urgent = True
        actions = self._advance_bursts(now)
        known = self._bursts.find(event.job, event.burst)
        if known is not None and known.tier != event.tier:
            actions.append(_stopped(known, f"it goes to {event.tier} instead"))
        self._bursts.announce(event, now)
        return actions

    def _advance_bursts(self, now: float) -> list[Action]:
        """Count what bursts have moved, and tell which are given up."""
        reason = "neither ended nor renewed long after its deadline"
        return [_stopped(burst, reason) for burst in self._bursts.advance(now)]

    def _first_expiry(self) -> float:
        return min((tier.pool.next_expiry() for tier in self._tiers.values()), default=_NEVER)


def _stopped(burst: Burst, reason: str) -> SetBurstRate:
    return SetBurstRate(
        job=burst.job, burst=burst.name, tier=burst.tier, bytes_per_s=0.0, reason=reason
    )
