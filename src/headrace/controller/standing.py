"""What holds now, as far as the policy's actions tell. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headrace.core.media import Media, TierName
from headrace.policy.reservation.events import Diagnosed, SetBurstRate, SetQuota
from headrace.policy.reservation.snapshot import Snapshot
from headrace.wire.control import TierOffer

UNDIAGNOSED = Diagnosed(
    job="", score=100.0, level="healthy", mode="none", reason="it has not reported yet"
)
"""What is said of a job before its first report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """A tier of the estate: what all who offer it can give together."""

    media: Media
    bytes_per_s: float


def sum_up(offers: Iterable[TierOffer]) -> dict[TierName, Tier]:
    """Return what all offers of each tier come to; its medium is the first offer's."""
    tiers: dict[TierName, Tier] = {}
    for offer in offers:
        so_far = tiers.get(offer.tier, Tier(media=offer.media, bytes_per_s=0.0))
        tiers[offer.tier] = replace(so_far, bytes_per_s=so_far.bytes_per_s + offer.bytes_per_s)
    return tiers


@dataclass(slots=True)
class Standing:
    """Quotas, bursts, diagnoses and reordering in force."""

    tiers: dict[TierName, Tier] = field(default_factory=dict)
    """What is offered now."""

    quotas: dict[str, dict[TierName, SetQuota]] = field(default_factory=dict)
    """Job → tier → the quota that was set last."""

    diagnoses: dict[str, Diagnosed] = field(default_factory=dict)
    bursts: dict[tuple[str, str], SetBurstRate] = field(default_factory=dict)
    reordering: set[str] = field(default_factory=set)

    def look_at(self, snapshot: Snapshot) -> None:
        """Bring up to date what changes more often than the policy tells: scores, bursts' ends."""
        for job, state in snapshot.jobs.items():
            if state.hosts:
                self.diagnoses[job] = Diagnosed(
                    job=job,
                    score=state.score,
                    level=state.level,
                    mode=state.mode,
                    reason=state.reason,
                )
        moving = {(one.job, one.burst) for s in snapshot.jobs.values() for one in s.bursts}
        self.bursts = {key: rate for key, rate in self.bursts.items() if key in moving}

    def quota(self, job: str, tier: TierName) -> float:
        """Return a job's quota; 0 where none was set [B/s]."""
        found = self.quotas.get(job, {}).get(tier)
        return found.bytes_per_s if found else 0.0

    def holders(self, tier: TierName) -> list[str]:
        """Return the jobs that have a quota on a tier."""
        return [job for job, quotas in self.quotas.items() if tier in quotas]

    def diagnosis(self, job: str) -> Diagnosed:
        """Return what is wrong with a job."""
        return self.diagnoses.get(job, UNDIAGNOSED)

    def bursts_of(self, job: str) -> dict[str, SetBurstRate]:
        """Return a job's bursts by name."""
        return {burst: rate for (owner, burst), rate in self.bursts.items() if owner == job}

    def forget_job(self, job: str) -> None:
        """Forget a job that ended."""
        self.quotas.pop(job, None)
        self.diagnoses.pop(job, None)
        self.reordering.discard(job)
        for burst in self.bursts_of(job):
            del self.bursts[job, burst]
