"""Fixed quotas: what a careful operator would set without watching health.

Each job has a part of each tier in proportion to what it reads from it on average, and
all of the tier is handed out, so that every job has the same reserve above its mean need.
The operator is given the true means, which nobody knows that well in practice.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.media import TierName
from headrace.policy.reservation.events import Action, Event, TierChanged
from headrace.sim.rivals.quotas import Quotas

Needs = Mapping[str, Mapping[TierName, float]]
"""Job → tier → what it reads from it on average when nothing is wrong [B/s]."""


class StaticQuotas:
    """Gives each job its part of every tier once, and never changes it."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._quotas = Quotas()

    def handle(self, event: Event, now: float) -> list[Action]:  # noqa: ARG002
        """Answer a tier that is new or changed with everybody's quotas; all else with nothing."""
        if not isinstance(event, TierChanged):
            return []
        parts = parts_of(self._needs, event.tier)
        wanted = {(job, event.tier): part * event.bytes_per_s for job, part in parts.items()}
        return [*self._quotas.change(wanted, reason="its part of the mean need, fixed")]


def parts_of(needs: Needs, tier: TierName) -> dict[str, float]:
    """Return each job's part of a tier in proportion to its mean need; they sum to 1."""
    on_tier = {job: need.get(tier, 0.0) for job, need in needs.items()}
    total = sum(on_tier.values())
    return {job: need / total for job, need in on_tier.items()} if total > 0 else {}
