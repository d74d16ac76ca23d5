"""One round: what everybody claims is divided, lent and spread, and becomes actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.policy.reservation.account import Account
from headrace.policy.reservation.bursts import Burst
from headrace.policy.reservation.division import (
    Claims,
    held_up,
    is_good_enough,
    moved,
    ordinary,
    parts_of,
    spread,
)
from headrace.policy.reservation.events import (
    Action,
    Lend,
    Reclaim,
    Refuse,
    SetBurstRate,
    SetQuota,
)
from headrace.policy.reservation.fairness import Amounts
from headrace.policy.reservation.foresight import EVERYTHING
from headrace.policy.reservation.limits import ReservationLimits
from headrace.policy.reservation.pool import Ask, LedgerEntry, Loan
from headrace.policy.reservation.tier import Tier

_COMFORT = 1.1
"""Factor on what deadlines need that lets a job be well."""


@dataclass(kw_only=True, slots=True)
class Outcome:
    """Actions of one round, by the order in which they are to be applied."""

    reclaims: list[Action] = field(default_factory=list)
    reductions: list[Action] = field(default_factory=list)
    loans: list[Action] = field(default_factory=list)
    raises: list[Action] = field(default_factory=list)

    def ordered(self) -> list[Action]:
        """Return all of them: whatever gives comes after whatever takes."""
        return [*self.reclaims, *self.reductions, *self.loans, *self.raises]


class Round:
    """Divides all tiers once.

    Args:
        tiers: At least one.
        accounts: At least one job.
        bursts: Checkpoints that are being moved, on tiers that exist.
        limits: The arbiter's.
        now: [s].
    """

    def __init__(
        self,
        tiers: Sequence[Tier],
        accounts: Sequence[Account],
        bursts: Sequence[Burst],
        limits: ReservationLimits,
        now: float,
    ) -> None:
        self._tiers = tiers
        self._accounts = accounts
        self._bursts = bursts
        self._limits = limits
        self._now = now
        self._capacity = np.array([tier.bytes_per_s for tier in tiers])
        self._places = {account.job: k for k, account in enumerate(accounts)}
        self._in_need = [self._is_in_need(account) for account in accounts]
        self._outcome = Outcome()

    def divide(self) -> list[Action]:
        """Return the actions that put the new division in force; the books are changed already."""
        urgent = self._urgent()
        pools = self._limits.pool.share * (self._capacity - urgent.sum(axis=-1))
        claims = held_up(self._claims(urgent), self._capacity, self._limits.foresight.margin)
        ordinaries = ordinary(claims, self._capacity - pools)
        lent = np.zeros_like(ordinaries)
        for i, tier in enumerate(self._tiers):
            lent[i] = self._lend(
                tier, float(pools[i]), claims.want[i], ordinaries[i], claims.must[i]
            )
        entitled = ordinaries + lent
        target = spread(entitled, self._shares(entitled), self._capacity)
        for i in range(len(self._tiers)):
            self._put_in_force(i, claims.want[i], ordinaries[i], lent[i], target[i])
        return self._outcome.ordered()

    def _urgent(self) -> Amounts:
        """Return what urgent bursts get before anybody else ``[tiers, bursts]``."""
        rates = np.zeros((len(self._tiers), len(self._bursts)))
        for i, tier in enumerate(self._tiers if self._bursts else ()):
            floor = self._limits.floor_share * tier.bytes_per_s
            kept = sum(a.joined.guaranteed.get(tier.name, 0.0) for a in self._accounts)
            free = max(self._burst_room(tier) - floor - kept, 0.0)
            for j, burst in enumerate(self._bursts):
                if burst.urgent and burst.tier == tier.name:
                    rates[i, j] = min(burst.needs(self._now, self._limits.bursts), free)
                    free -= rates[i, j]
        return rates

    def _burst_room(self, tier: Tier) -> float:
        """Return what all bursts may take of a tier [B/s]."""
        in_need = any(
            account.score < self._limits.lend_below and account.used(tier.name) > 0
            for account in self._accounts
        )
        return tier.bytes_per_s * (self._limits.bursts.share if in_need else 1.0)

    def _claims(self, urgent: Amounts) -> Claims:
        """Return everybody's claims: jobs first, then bursts."""
        names = [tier.name for tier in self._tiers]
        jobs, bursts = self._accounts, self._bursts
        splits = [account.split for account in jobs]
        weights = [self._weight(account) for account in jobs] + [1.0] * len(bursts)
        floors = self._limits.floor_share * self._capacity[:, None] / max(len(jobs), 1)
        capacity = self._capacity[:, None]
        want = np.array([[a.asked.get(t, EVERYTHING) for a in jobs] for t in names])
        must = np.array([[a.musts.get(t, 0.0) for a in jobs] for t in names])
        missed = [account.is_missed for account in jobs]
        want, must = (np.where(missed, 0.0, amounts) for amounts in (want, must))
        kept = np.array([[a.joined.guaranteed.get(t, 0.0) for a in jobs] for t in names])
        want = np.maximum(self._yielding(want, must), floors)
        want = np.minimum(want, capacity)
        burst_want = self._burst_wants(urgent)
        return Claims(
            must=np.hstack([np.minimum(must, want), urgent]),
            want=np.hstack([want, burst_want]),
            keep=np.hstack([np.minimum(np.maximum(kept, floors), want), urgent]),
            weights=np.array([weights] * len(names)),
            parts=np.array([[s.get(t, 0.0) for s in splits] + [0.0] * len(bursts) for t in names]),
        )

    def _shares(self, entitled: Amounts) -> Amounts:
        """Return the parts by which each tier's spare is spread ``[tiers, claimants]``.

        Half goes by what each has already, because needs vary with their size; half by weight,
        because a job that hardly used a tier may need it any moment, as when a cache loses
        its data. Of a congested tier all goes to jobs in need.
        """
        weights = [account.joined.weight for account in self._accounts]
        even = np.array(weights + [0.0] * len(self._bursts))
        shares = 0.5 * parts_of(entitled) + 0.5 * parts_of(even)
        for i, tier in enumerate(self._tiers):
            if tier.is_congested:
                needy = shares[i] * [*self._in_need, *[False] * len(self._bursts)]
                shares[i] = parts_of(needy if needy.any() else shares[i])
        return parts_of(shares)

    def _is_in_need(self, account: Account) -> bool:
        return account.score < self._limits.regulator.target and not account.is_missed

    def _yielding(self, want: Amounts, must: Amounts) -> Amounts:
        """Return the wants; on congested tiers jobs that are well only want what they must have.

        What such a tier gives is not known, so it cannot be divided. But its queue is shorter
        for those in need when the others do not fill theirs at the same time.
        """
        if not self._limits.predictive:
            return want
        congested = np.array([[tier.is_congested] for tier in self._tiers])
        yields = congested & ~np.array(self._in_need, dtype=bool)
        return np.where(yields, np.minimum(want, must * _COMFORT), want)

    def _weight(self, account: Account) -> float:
        """Return a job's weight: up to twice its own the farther its health is from the target."""
        target = self._limits.regulator.target
        return account.joined.weight * (1.0 + max(target - account.score, 0.0) / target)

    def _burst_wants(self, urgent: Amounts) -> Amounts:
        want = urgent.copy()
        for i, tier in enumerate(self._tiers if self._bursts else ()):
            room = self._burst_room(tier) - urgent[i].sum()
            for j, burst in enumerate(self._bursts):
                if burst.tier == tier.name and not burst.urgent:
                    want[i, j] = min(burst.needs(self._now, self._limits.bursts), max(room, 0.0))
                    room -= want[i, j]
        return want

    def _lend(
        self, tier: Tier, pool: float, want: Amounts, ordinary: Amounts, must: Amounts
    ) -> Amounts:
        """Settle a tier's pool; return what each claimant holds of it then."""
        lacking = np.where(want - ordinary > self._limits.tolerance * want, want - ordinary, 0.0)
        lacking[len(self._accounts) :] = 0.0
        tier.is_short = bool(lacking.any())
        ended = tier.pool.resize(pool, now=self._now) + self._returned(tier, lacking)
        misses = must > ordinary * (1.0 + 1e-6)
        asks = [
            self._ask(self._accounts[k], tier, float(lacking[k]), misses=bool(misses[k]))
            for k in np.flatnonzero(lacking).tolist()
            if self._may_borrow(self._accounts[k], misses=bool(misses[k]))
        ]
        more, loans = tier.pool.settle(asks, self._now)
        self._outcome.reclaims += [reclaimed(entry) for entry in ended + more]
        self._outcome.loans += [self._lent(loan) for loan in loans]
        self._refuse(tier, asks)
        return self._held(tier)

    def _returned(self, tier: Tier, lacking: Amounts) -> list[LedgerEntry]:
        """End the loans of jobs that lack nothing any more."""
        ended = []
        for loan in tier.pool.loans:
            k = self._places[loan.job]
            if not lacking[k]:
                entry = tier.pool.end(
                    loan.job,
                    now=self._now,
                    iteration=self._accounts[k].iteration,
                    reason="its ordinary quota is enough again",
                )
                ended += [entry] if entry else []
        return ended

    def _held(self, tier: Tier) -> Amounts:
        """Return what each claimant has borrowed."""
        held = np.zeros(len(self._accounts) + len(self._bursts))
        for loan in tier.pool.loans:
            held[self._places[loan.job]] = loan.bytes_per_s
        return held

    def _may_borrow(self, account: Account, *, misses: bool) -> bool:
        if account.mode == "transform-bound" or account.is_missed:
            return False
        return misses or (account.reading is not None and account.score < self._limits.lend_below)

    def _ask(self, account: Account, tier: Tier, lacking: float, *, misses: bool) -> Ask:
        why = f"score {account.score:.0f}"
        if misses:
            why += f", deadlines need {_rate(account.musts[tier.name])}"
        return Ask(
            job=account.job,
            bytes_per_s=lacking,
            score=account.score,
            step_time_s=account.step_time_s,
            iteration=account.iteration,
            reason=f"{why}; lacks {_rate(lacking)} of {tier.name}",
        )

    def _lent(self, loan: Loan) -> Lend:
        return Lend(
            loan=loan.loan,
            job=loan.job,
            tier=loan.tier,
            bytes_per_s=loan.bytes_per_s,
            iterations=loan.iterations,
            expires_in_s=loan.expires_at - self._now,
            score=loan.score,
            reason=loan.reason,
        )

    def _refuse(self, tier: Tier, asks: Sequence[Ask]) -> None:
        """Tell those that wait, and transform-bound ones, why they get nothing; once each."""
        waiting = {ask.job for ask in asks if not tier.pool.held(ask.job)}
        for account in self._accounts:
            if account.job in waiting:
                reason = f"{_rate(tier.pool.lent)} of {_rate(tier.pool.size)} are lent; it waits"
            elif account.is_transform_bound_in_need(tier.name):
                reason = f"bandwidth cannot help: {account.diagnosis.reason}"
            else:
                account.refusals.discard(tier.name)
                continue
            if tier.name not in account.refusals:
                account.refusals.add(tier.name)
                self._outcome.loans.append(
                    Refuse(job=account.job, tier=tier.name, score=account.score, reason=reason)
                )

    def _put_in_force(
        self, i: int, want: Amounts, ordinary: Amounts, lent: Amounts, target: Amounts
    ) -> None:
        tier = self._tiers[i]
        standing = np.array(
            [a.quotas.get(tier.name, 0.0) for a in self._accounts]
            + [b.bytes_per_s if b.tier == tier.name else 0.0 for b in self._bursts]
        )
        capacity, tolerance = float(self._capacity[i]), self._limits.tolerance
        suffices = is_good_enough(standing, ordinary + lent, capacity=capacity, tolerance=tolerance)
        if suffices and not tier.is_congested:
            return
        quotas = moved(standing, target, capacity=capacity, tolerance=tolerance)
        for k in np.flatnonzero(quotas != standing).tolist():
            reason = _reason(float(want[k]), float(ordinary[k]), float(lent[k]), float(quotas[k]))
            action = self._set(tier, k, float(quotas[k]), float(want[k]), reason)
            is_less = quotas[k] < standing[k]
            (self._outcome.reductions if is_less else self._outcome.raises).append(action)

    def _set(self, tier: Tier, k: int, quota: float, want: float, reason: str) -> Action:
        if k < len(self._accounts):
            account = self._accounts[k]
            account.quotas[tier.name] = quota
            account.reasons[tier.name] = reason
            return SetQuota(
                job=account.job, tier=tier.name, bytes_per_s=quota, reason=reason, asked=want
            )
        burst = self._bursts[k - len(self._accounts)]
        burst.bytes_per_s = quota
        burst.reason = self._burst_reason(burst, quota)
        return SetBurstRate(
            job=burst.job, burst=burst.name, tier=tier.name, bytes_per_s=quota, reason=burst.reason
        )

    def _burst_reason(self, burst: Burst, rate: float) -> str:
        kind = "urgent: served first" if burst.urgent else "beside data reads"
        needed, left = burst.needs(self._now, self._limits.bursts), burst.deadline_at - self._now
        late = "" if rate >= needed * 0.98 else "; it will be late, others need the tier too"
        return f"{kind}; {burst.left / 1e9:.4g} GB in {left:.3g} s need {_rate(needed)}{late}"


def reclaimed(entry: LedgerEntry) -> Reclaim:
    """Return the action that tells the end of a loan."""
    loan = entry.loan
    return Reclaim(loan=loan.loan, job=loan.job, tier=loan.tier, reason=entry.reason)


def _reason(want: float, ordinary: float, lent: float, quota: float) -> str:
    spare = quota - ordinary - lent
    parts = [f"wants {_rate(want)}: ordinary {_rate(ordinary)}"]
    parts += [f"lent {_rate(lent)}"] if lent else []
    parts += [f"spare {_rate(spare)}"] if spare > 0.001 * quota else []
    return ", ".join(parts)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e6:.4g} MB/s"
