"""Carries events to the policy, and what it decides to agents and hosts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headrace.policy.reservation.events import (
    Action,
    Event,
    SetBurstRate,
    SetQuota,
    SetReordering,
    TierChanged,
)
from headrace.sim.estate import Abilities, Enforcement, Estate
from headrace.sim.job import SimulatedJob
from headrace.sim.paths import Paths
from headrace.sim.policies import Policy
from headrace.sim.quotas import Quotas
from headrace.sim.recording import Tape
from headrace.sim.saving import Saving


class Governor:
    """One policy's word is law, one report interval later."""

    def __init__(
        self,
        policy: Policy | None,
        jobs: Sequence[SimulatedJob],
        paths: Paths,
        quotas: Quotas,
        saving: Saving,
        *,
        abilities: Abilities,
        enforcement: Enforcement,
    ) -> None:
        self.tape = Tape()
        self._policy, self._abilities, self._enforcement = policy, abilities, enforcement
        self._jobs = {job.name: number for number, job in enumerate(jobs)}
        self._tiers = {tier: number for number, tier in enumerate(paths.tiers)}
        self._paths, self._quotas, self._saving = paths, quotas, saving
        self._orders: deque[tuple[float, SetReordering]] = deque()
        self._ticked_at = 0.0

    @property
    def listens(self) -> bool:
        """Whether there is anybody to tell."""
        return self._policy is not None

    def introduce(self, estate: Estate) -> None:
        """Tell the policy which tiers there are."""
        for name, carrier in estate.tiers.items():
            nominal = estate.nominal(name)
            self.tell(TierChanged(tier=name, media=carrier.media, bytes_per_s=nominal), 0.0)

    def tell(self, event: Event, now: float) -> None:
        """Let the policy handle an event and carry its actions out."""
        if self._policy is not None:
            for action in self._policy.handle(event, now):
                self._obey(action, now)

    def tick_is_due(self, now: float) -> bool:
        """Whether the policy should hear that time has passed; said once per interval."""
        if self._policy is None or now < self._ticked_at + self._enforcement.tick_s:
            return False
        self._ticked_at = now
        return True

    def advance(self, now: float) -> None:
        """Bring into force what was decided one interval ago."""
        self._quotas.advance(now)
        while self._orders and self._orders[0][0] <= now:
            order = self._orders.popleft()[1]
            self._paths.reordered[self._jobs[order.job]] = order.enabled

    def _obey(self, action: Action, now: float) -> None:
        if isinstance(action, SetQuota):
            job, tier = self._jobs[action.job], self._tiers[action.tier]
            self._quotas.order(job, tier, action.bytes_per_s, now=now)
            self.tape.quota_changes += 1
            return
        self.tape.actions.append((now, action))
        if isinstance(action, SetReordering) and self._abilities.reordering:
            self._orders.append((now + self._enforcement.delay_s, action))
        elif isinstance(action, SetBurstRate):
            self._saving.limit(action.job, action.burst, action.bytes_per_s)
