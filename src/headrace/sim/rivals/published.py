"""The policy as it was published (rows B1 to B6), without anything that headrace adds.

Per iteration and job: score, two regulators, one relative change for both tiers, weighted by
the split of accesses. A job that is tight borrows what its next batch needs beyond its quota,
first come first served, for three iterations. HDD reads are reordered after a long crisis. It
predicts nothing, and its regulators know nothing of what was granted.

What the report leaves open is settled in its favour: it starts from the quotas that a careful
operator would set, and a loan is as large as the next batch demands.

Source: elastic reservation report.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.media import Media, TierName
from headrace.policy.reservation.events import (
    Action,
    Event,
    HealthReported,
    Indicators,
    JobJoined,
    JobLeft,
    Lend,
    Reclaim,
    SetReordering,
    TierChanged,
)
from headrace.policy.reservation.health import HealthTracker
from headrace.policy.reservation.reorder import Reordering
from headrace.sim.rivals.loans import LOAN_ITERATIONS, POOL_SHARE, FirstComePool, Loan
from headrace.sim.rivals.pid import GAINS, TARGET, Pid
from headrace.sim.rivals.quotas import Quotas
from headrace.sim.rivals.static import Needs, parts_of

TIGHT = 60.0
"""Score below which a job borrows (row B1)."""

FLOOR = 0.25
"""Part of its first quota that a job always keeps."""


@dataclass(kw_only=True, slots=True)
class _Tier:
    media: Media
    bytes_per_s: float
    parts: dict[str, float]
    """Job → its part of the mean need."""
    quotas: dict[str, float] = field(default_factory=dict)
    """Job → its quota without loans [B/s]."""
    pool: FirstComePool = field(default_factory=FirstComePool)

    def first_quota(self, job: str) -> float:
        """Return what an operator would give a job of what is not in the pool [B/s]."""
        return self.parts.get(job, 0.0) * self.ordinary

    @property
    def ordinary(self) -> float:
        """What is not in the pool [B/s]."""
        return (1.0 - POOL_SHARE) * self.bytes_per_s

    @property
    def free(self) -> float:
        """What of that nobody has [B/s]."""
        return max(0.0, self.ordinary - sum(self.quotas.values()))


@dataclass(kw_only=True, slots=True)
class _Job:
    health: HealthTracker = field(default_factory=HealthTracker)
    reordering: Reordering = field(default_factory=Reordering)
    pids: dict[TierName, Pid] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ask:
    score: float
    job: str
    tier: TierName
    bytes_per_s: float
    step_time_s: float


class Published:
    """Regulators, pool and reordering as reported; reacts once per iteration."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._tiers: dict[TierName, _Tier] = {}
        self._jobs: dict[str, _Job] = {}
        self._quotas = Quotas(least_change=0.01)
        self._asks: list[_Ask] = []
        self._asked_at = 0.0
        self._loans = 0

    def handle(self, event: Event, now: float) -> list[Action]:
        """Answer one event; who asked at the same instant is served when time has gone on."""
        actions: list[Action] = self._settle() if now > self._asked_at else []
        match event:
            case TierChanged():
                actions += self._change_tier(event)
            case JobJoined(job=job) if job not in self._jobs:
                actions += self._join(job)
            case JobLeft(job=job) if job in self._jobs:
                actions += self._leave(job)
            case HealthReported(job=job, indicators=found) if job in self._jobs:
                actions += self._regulate(job, found, now)
            case _:
                pass
        return actions

    def _change_tier(self, event: TierChanged) -> list[Action]:
        known = self._tiers.get(event.tier)
        self._tiers[event.tier] = _Tier(
            media=event.media,
            bytes_per_s=event.bytes_per_s,
            parts=parts_of(self._needs, event.tier),
            quotas=known.quotas if known else {},
        )
        return [action for job in self._jobs for action in self._begin(job, event.tier)]

    def _join(self, job: str) -> list[Action]:
        self._jobs[job] = _Job()
        return [action for tier in self._tiers for action in self._begin(job, tier)]

    def _begin(self, job: str, name: TierName) -> list[Action]:
        tier = self._tiers[name]
        self._jobs[job].pids[name] = Pid(GAINS[tier.media])
        tier.quotas[job] = min(tier.first_quota(job), tier.free)
        return self._apply(job, "its part of the mean need")

    def _leave(self, job: str) -> list[Action]:
        actions = [
            action for name in self._tiers for action in self._end_loan(job, name, "its job left")
        ]
        del self._jobs[job]
        for tier in self._tiers.values():
            del tier.quotas[job]
        self._quotas.forget(job)
        return actions

    def _regulate(self, job: str, found: Indicators, now: float) -> list[Action]:
        state = self._jobs[job]
        score = state.health.observe(found).score
        actions = [*self._age_loans(job, score), *self._adjust(job, score, found)]
        if score < TIGHT:
            self._ask(job, score, found, now)
        return [*actions, *self._reorder(job, score, found)]

    def _reorder(self, job: str, score: float, found: Indicators) -> list[Action]:
        state = self._jobs[job]
        decided = state.reordering.observe(score, hdd_share=self._hdd_share(found))
        if not decided.changed:
            return []
        return [SetReordering(job=job, enabled=decided.enabled, reason=decided.reason)]

    def _adjust(self, job: str, score: float, found: Indicators) -> list[Action]:
        """Change the ordinary quotas of all tiers by one relative amount (row B6)."""
        state = self._jobs[job]
        change = sum(
            part * state.pids[tier].change(score)
            for tier, part in found.split.items()
            if tier in state.pids
        )
        if change == 0.0:
            return self._apply(job, "its loans changed")
        for tier in self._tiers.values():
            quota, least = tier.quotas[job], FLOOR * tier.first_quota(job)
            most = quota + tier.free
            tier.quotas[job] = max(min(quota * (1.0 + change), most), min(least, most))
        return self._apply(job, f"score {score:.0f}, {change:+.1%}")

    def _ask(self, job: str, score: float, found: Indicators, now: float) -> None:
        self._asked_at = now
        for tier, part in found.split.items():
            if tier not in self._tiers or self._tiers[tier].pool.held(job):
                continue
            needed = part * found.next_bytes / max(found.step_time_s, 1e-3)
            more = needed - self._tiers[tier].quotas[job]
            if more > 0:
                self._asks.append(
                    _Ask(score=score, job=job, tier=tier, bytes_per_s=more,
                         step_time_s=found.step_time_s)
                )  # fmt: skip

    def _settle(self) -> list[Action]:
        """Serve those that asked at one instant, lowest score first."""
        asks, self._asks = sorted(self._asks, key=lambda ask: ask.score), []
        return [action for ask in asks for action in self._lend(ask)]

    def _lend(self, ask: _Ask) -> list[Action]:
        tier = self._tiers[ask.tier]
        loan = tier.pool.lend(ask.job, ask.bytes_per_s, pool=POOL_SHARE * tier.bytes_per_s)
        if loan is None:
            return []
        self._loans += 1
        loan.number = self._loans
        lend = Lend(
            loan=loan.number, job=ask.job, tier=ask.tier, bytes_per_s=loan.bytes_per_s,
            iterations=LOAN_ITERATIONS, expires_in_s=LOAN_ITERATIONS * ask.step_time_s,
            score=ask.score, reason=f"score {ask.score:.0f} is tight",
        )  # fmt: skip
        return [lend, *self._apply(ask.job, "a loan began")]

    def _age_loans(self, job: str, score: float) -> list[Action]:
        actions: list[Action] = []
        for name, tier in self._tiers.items():
            loan = tier.pool.held(job)
            if loan is None:
                continue
            loan.left -= 1
            if loan.left <= 0 or score >= TARGET:
                why = "its time is over" if loan.left <= 0 else f"score {score:.0f} is well again"
                actions += self._end_loan(job, name, why)
        return actions

    def _end_loan(self, job: str, tier: TierName, reason: str) -> list[Action]:
        loan = self._tiers[tier].pool.reclaim(job)
        if loan is None:
            return []
        lowered = self._apply(job, "a loan ended")
        return [*lowered, Reclaim(loan=loan.number, job=job, tier=tier, reason=reason)]

    def _apply(self, job: str, reason: str) -> list[Action]:
        wanted = {
            (job, name): tier.quotas[job] + self._lent(job, name)
            for name, tier in self._tiers.items()
            if job in tier.quotas
        }
        return [*self._quotas.change(wanted, reason=reason)]

    def _lent(self, job: str, tier: TierName) -> float:
        loan: Loan | None = self._tiers[tier].pool.held(job)
        return loan.bytes_per_s if loan else 0.0

    def _hdd_share(self, found: Indicators) -> float:
        return sum(
            part
            for tier, part in found.split.items()
            if tier in self._tiers and self._tiers[tier].media == "hdd"
        )
