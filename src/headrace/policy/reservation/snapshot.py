"""The arbiter's books at one moment, as frozen values for whoever shows or keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.core.media import Media, TierName
from headrace.policy.reservation.account import Account
from headrace.policy.reservation.bursts import Burst
from headrace.policy.reservation.events import Level, Mode
from headrace.policy.reservation.pool import Loan
from headrace.policy.reservation.tier import Tier


@dataclass(frozen=True, kw_only=True, slots=True)
class TierGrant:
    """What a job has of one tier [B/s]."""

    asked: float
    """What its need is reckoned at; more than any tier gives while nothing is known of it."""

    granted: float
    """Its quota in force, loans and spare included."""

    lent: float
    """The part of the quota that is lent."""

    used: float
    """Read in the newest iteration."""

    reason: str
    """Why the quota is what it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BurstState:
    """A checkpoint burst in progress."""

    job: str
    burst: str
    tier: TierName
    left: float
    """[bytes]"""

    bytes_per_s: float
    deadline_at: float
    """[s]"""

    urgent: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobState:
    """One job."""

    job: str
    weight: float
    score: float
    level: Level
    mode: Mode
    reason: str
    iteration: int
    """Newest iteration that is over; -1 before the first."""

    step_time_s: float
    wait_s: float
    queue_depth: float
    queue_capacity: float
    hit_rate: float
    read_bytes_per_s: float
    hosts: int
    """Hosts that reported."""

    reordering: bool
    tiers: Mapping[TierName, TierGrant]
    loans: tuple[Loan, ...]
    """Open loans, with their timers."""

    bursts: tuple[BurstState, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TierState:
    """One tier [B/s]."""

    media: Media
    nominal: float
    effective: float
    """What it seems to give: nominal, or what jobs read lately while they suffer congestion."""

    granted: float
    """All quotas and bursts."""

    pool: float
    """What may be lent."""

    lent: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All of it."""

    jobs: Mapping[str, JobState]
    tiers: Mapping[TierName, TierState]


def job_state(account: Account, tiers: Iterable[Tier], bursts: Sequence[Burst]) -> JobState:
    """Return one job's books."""
    reading = account.reading
    loans = [loan for tier in tiers for loan in tier.pool.loans if loan.job == account.job]
    lent = {loan.tier: loan.bytes_per_s for loan in loans}
    return JobState(
        job=account.job,
        weight=account.joined.weight,
        score=account.score,
        level=account.level,
        mode=account.mode,
        reason=account.reason,
        iteration=account.iteration,
        step_time_s=account.step_time_s,
        wait_s=reading.wait_s if reading else 0.0,
        queue_depth=reading.queue_depth if reading else 0.0,
        queue_capacity=reading.queue_capacity if reading else 0.0,
        hit_rate=reading.hit_rate if reading else 1.0,
        read_bytes_per_s=reading.read_bytes_per_s if reading else 0.0,
        hosts=len(account.hosts),
        reordering=account.is_reordering,
        tiers={
            tier: TierGrant(
                asked=account.asked.get(tier, 0.0),
                granted=quota,
                lent=lent.get(tier, 0.0),
                used=account.used(tier),
                reason=account.reasons.get(tier, ""),
            )
            for tier, quota in account.quotas.items()
        },
        loans=tuple(loans),
        bursts=tuple(_burst_state(burst) for burst in bursts),
    )


def tier_state(tier: Tier, accounts: Iterable[Account], bursts: Iterable[Burst]) -> TierState:
    """Return one tier's books."""
    jobs = list(accounts)
    quotas = sum(account.quotas.get(tier.name, 0.0) for account in jobs)
    used = sum(account.used(tier.name) for account in jobs)
    return TierState(
        media=tier.media,
        nominal=tier.bytes_per_s,
        effective=min(used, tier.bytes_per_s) if tier.is_congested else tier.bytes_per_s,
        granted=quotas + sum(b.bytes_per_s for b in bursts if b.tier == tier.name),
        pool=tier.pool.size,
        lent=tier.pool.lent,
    )


def _burst_state(burst: Burst) -> BurstState:
    return BurstState(
        job=burst.job,
        burst=burst.name,
        tier=burst.tier,
        left=burst.left,
        bytes_per_s=burst.bytes_per_s,
        deadline_at=burst.deadline_at,
        urgent=burst.urgent,
    )
