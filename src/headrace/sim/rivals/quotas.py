"""What quotas are in force, and how a policy gets from these to others: pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.media import TierName
from headrace.policy.reservation.events import SetQuota

LEAST_CHANGE = 0.01
"""Quotas that differ by a smaller part are left alone."""


class Quotas:
    """Remembers the quotas that a policy gave, and answers with the changes only."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, TierName], float] = {}

    def of(self, job: str, tier: TierName) -> float:
        """Return a job's quota on a tier; 0 before it has one [B/s]."""
        return self._given.get((job, tier), 0.0)

    def given(self, tier: TierName) -> float:
        """Return what all jobs hold of a tier [B/s]."""
        return sum(held for (_, name), held in self._given.items() if name == tier)

    def forget(self, job: str) -> None:
        """Drop a job that left."""
        self._given = {key: held for key, held in self._given.items() if key[0] != job}

    def change(
        self, wanted: Mapping[tuple[str, TierName], float], *, reason: str
    ) -> list[SetQuota]:
        """Return the actions that bring quotas to ``wanted`` [B/s], reductions first."""
        changes = [
            (key, quota)
            for key, quota in wanted.items()
            if abs(quota - self._given.get(key, 0.0)) > LEAST_CHANGE * self._given.get(key, 0.0)
        ]
        changes.sort(key=lambda change: change[1] > self._given.get(change[0], 0.0))
        self._given.update(changes)
        return [
            SetQuota(job=job, tier=tier, bytes_per_s=quota, asked=quota, reason=reason)
            for (job, tier), quota in changes
        ]
