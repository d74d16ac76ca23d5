"""Everybody's part of the quotas in force: what agents are told, and what hosts read by themselves.

Hosts that read from storage by themselves stand beside the agents as one reader of their job,
and share that reader's part by what each read lately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.controller.agents import Agent, Agents
from headrace.controller.division import OPEN_SHARE, Floats, divide
from headrace.controller.jobs import Job, Jobs
from headrace.controller.standing import Standing
from headrace.core.media import TierName

DIRECT_ROOM = 0.1
"""Hosts' own reads get this part of what is held open, where agents offer the tier too."""

Orders = dict[str, dict[TierName, float]]


@dataclass(frozen=True, slots=True)
class Direct:
    """What a job's hosts may read by themselves, together."""

    bytes_per_s: float
    used: dict[str, float]
    """Host → what it read lately [B/s]."""

    total: float
    """The sum of ``used`` [B/s]."""

    def of(self, host: str) -> float:
        """Return one host's part [B/s]."""
        even = 1.0 / max(len(self.used), 1)
        by_use = self.used.get(host, 0.0) / self.total if self.total > 0 else even
        return self.bytes_per_s * (OPEN_SHARE * even + (1.0 - OPEN_SHARE) * by_use)


class Shares:
    """The division that holds until the next one."""

    def __init__(self) -> None:
        self._orders: dict[str, Orders] = {}
        self._direct: dict[str, dict[TierName, Direct]] = {}

    def orders(self, agent: str) -> Orders:
        """Return job → tier → bandwidth of one agent [B/s]."""
        return self._orders.get(agent, {})

    def direct(self, job: str, host: str) -> dict[TierName, float]:
        """Return tier → bandwidth of one host's own reads [B/s]."""
        return {tier: direct.of(host) for tier, direct in self._direct.get(job, {}).items()}

    def divide(self, standing: Standing, jobs: Jobs, agents: Agents) -> None:
        """Divide all quotas anew by what everybody read lately."""
        tiers = {tier for quotas in standing.quotas.values() for tier in quotas}
        before, direct_before = self._orders, self._direct
        self._orders = {name: {} for name in agents}
        self._direct = {name: {} for name in jobs}
        for tier in sorted(tiers):
            named = [job for name, job in jobs.items() if tier in standing.quotas.get(name, {})]
            quotas = np.array([standing.quota(job.name, tier) for job in named])
            readers = _readers(tier, agents)
            held = _held(tier, named, readers, before, direct_before)
            self._divide_tier(tier, quotas, named, readers, held)

    def _divide_tier(
        self,
        tier: TierName,
        quotas: Floats,
        jobs: Sequence[Job],
        readers: Sequence[tuple[Agent, float]],
        held: Floats,
    ) -> None:
        direct = [job.direct_use(tier) for job in jobs]
        totals = [sum(used.values()) for used in direct]
        if not jobs:
            return
        use = np.array(
            [
                [*(agent.used(job.name, tier) for agent, _ in readers), total]
                for job, total in zip(jobs, totals, strict=True)
            ]
        )
        offered = [most for _, most in readers]
        room = np.array([*offered, DIRECT_ROOM * sum(offered) or 1.0])
        parts = divide(quotas, use, held=held, room=room, capacity=np.array([*offered, np.inf]))
        for job, row, used, total in zip(jobs, parts.tolist(), direct, totals, strict=True):
            for (agent, _), part in zip(readers, row, strict=False):
                self._orders[agent.name].setdefault(job.name, {})[tier] = part
            self._direct[job.name][tier] = Direct(row[-1], used, total)


def _readers(tier: TierName, agents: Agents) -> list[tuple[Agent, float]]:
    """Return the agents that offer a tier, and how much of it."""
    return [
        (agent, offer.bytes_per_s)
        for agent in agents.values()
        for offer in agent.offers
        if offer.tier == tier and offer.bytes_per_s > 0
    ]


def _held(
    tier: TierName,
    jobs: Sequence[Job],
    readers: Sequence[tuple[Agent, float]],
    orders: dict[str, Orders],
    direct: dict[str, dict[TierName, Direct]],
) -> Floats:
    """Return the parts in force ``float64 [jobs, readers]``; infinite where none is [B/s]."""
    none = Direct(np.inf, {}, 0.0)
    return np.array(
        [
            [
                *(
                    orders.get(agent.name, {}).get(job.name, {}).get(tier, np.inf)
                    for agent, _ in readers
                ),
                direct.get(job.name, {}).get(tier, none).bytes_per_s,
            ]
            for job in jobs
        ]
    )
