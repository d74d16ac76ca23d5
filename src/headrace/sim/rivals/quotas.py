"""What quotas are in force, and how a policy gets from these to others: pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.media import TierName
from headrace.policy.reservation.events import SetQuota


class Quotas:
    """Remembers the quotas that a policy gave, and answers with the changes only."""

    def __init__(self, *, least_change: float = 0.0) -> None:
        """Leave alone quotas that would grow by a smaller part of them."""
        self._least_change = least_change
        self._given: dict[tuple[str, TierName], float] = {}

    def of(self, job: str, tier: TierName) -> float:
        """Return a job's quota on a tier; 0 before it has one [B/s]."""
        return self._given.get((job, tier), 0.0)

    def forget(self, job: str) -> None:
        """Drop a job that left."""
        self._given = {key: held for key, held in self._given.items() if key[0] != job}

    def change(
        self, wanted: Mapping[tuple[str, TierName], float], *, reason: str
    ) -> list[SetQuota]:
        """Return the actions that bring quotas to ``wanted`` [B/s], reductions first."""
        changes = [(key, quota) for key, quota in wanted.items() if self._matters(key, quota)]
        changes.sort(key=lambda change: change[1] > self._given.get(change[0], 0.0))
        self._given.update(changes)
        return [
            SetQuota(job=job, tier=tier, bytes_per_s=quota, asked=quota, reason=reason)
            for (job, tier), quota in changes
        ]

    def _matters(self, key: tuple[str, TierName], quota: float) -> bool:
        held = self._given.get(key, 0.0)
        return quota < held or quota - held > self._least_change * held
