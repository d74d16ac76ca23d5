"""Everybody's part of the quotas in force: what agents are told, and what hosts read by themselves.

Hosts that read from storage by themselves stand beside the agents as one reader of their job,
and share that reader's part by what each read lately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.controller.agents import Agents
from headrace.controller.division import OPEN_SHARE, Floats, divide
from headrace.controller.jobs import Jobs
from headrace.controller.standing import Standing
from headrace.core.media import TierName

DIRECT_ROOM = 0.1
"""Hosts' own reads get this part of what is held open, where agents offer the tier too."""

Orders = dict[str, dict[TierName, float]]


@dataclass(frozen=True, slots=True)
class Direct:
    """What a job's hosts may read by themselves, together."""

    bytes_per_s: float
    hosts: int
    """How many share it, those that will announce themselves included."""

    used: dict[str, float]
    """Host → what it read lately [B/s]."""

    total: float
    """The sum of ``used`` [B/s]."""

    def of(self, host: str) -> float:
        """Return one host's part [B/s]."""
        even = 1.0 / self.hosts
        by_use = self.used.get(host, 0.0) / self.total if self.total > 0 else even
        return self.bytes_per_s * (OPEN_SHARE * even + (1.0 - OPEN_SHARE) * by_use)


@dataclass(frozen=True, slots=True)
class Division:
    """One tier's quotas, divided."""

    jobs: tuple[str, ...]
    agents: tuple[str, ...]
    parts: Floats
    """``float64 [jobs, agents + 1]``, the hosts' own reads last [B/s]."""

    columns: dict[str, list[float]]
    """Agent → its part of each job's quota [B/s]."""

    direct: dict[str, Direct]
    """Job → its hosts' own reads."""

    def held_by(self, jobs: tuple[str, ...], agents: tuple[str, ...]) -> Floats:
        """Return the parts of others' names and order; infinite where there is none [B/s]."""
        if (jobs, agents) == (self.jobs, self.agents):
            return self.parts
        found = np.full((len(jobs), len(agents) + 1), np.inf)
        rows = {name: row for row, name in enumerate(self.jobs)}
        columns = {name: column for column, name in enumerate(self.agents)}
        to_row = [row for row, name in enumerate(jobs) if name in rows]
        to_column = [c for c, name in enumerate(agents) if name in columns] + [len(agents)]
        of_row = [rows[name] for name in jobs if name in rows]
        of_column = [columns[n] for n in agents if n in columns] + [len(self.agents)]
        found[np.ix_(to_row, to_column)] = self.parts[np.ix_(of_row, of_column)]
        return found


_NOTHING = Division((), (), np.zeros((0, 1)), {}, {})


class Shares:
    """The division that holds until the next one."""

    def __init__(self) -> None:
        self._tiers: dict[TierName, Division] = {}

    def orders(self, agent: str) -> Orders:
        """Return job → tier → bandwidth of one agent [B/s]."""
        orders: Orders = {}
        for tier, division in self._tiers.items():
            for job, part in zip(division.jobs, division.columns.get(agent, ()), strict=False):
                orders.setdefault(job, {})[tier] = part
        return orders

    def direct(self, job: str, host: str) -> dict[TierName, float]:
        """Return tier → bandwidth of one host's own reads [B/s]."""
        return {
            tier: division.direct[job].of(host)
            for tier, division in self._tiers.items()
            if job in division.direct
        }

    def divide(self, standing: Standing, jobs: Jobs, agents: Agents) -> None:
        """Divide all quotas anew by what everybody read lately."""
        tiers = sorted({tier for quotas in standing.quotas.values() for tier in quotas})
        self._tiers = {tier: self._divide_tier(tier, standing, jobs, agents) for tier in tiers}

    def _divide_tier(
        self, tier: TierName, standing: Standing, jobs: Jobs, agents: Agents
    ) -> Division:
        holders = [jobs[name] for name in standing.holders(tier) if name in jobs]
        offered = {
            agent.name: offer.bytes_per_s
            for agent in agents.values()
            for offer in agent.offers
            if offer.tier == tier and offer.bytes_per_s > 0
        }
        if not holders:
            return _NOTHING
        names, readers = tuple(job.name for job in holders), tuple(offered)
        used = [job.direct_use(tier) for job in holders]
        totals = [sum(of_hosts.values()) for of_hosts in used]
        capacity = np.array([*offered.values(), np.inf])
        parts = divide(
            np.array([standing.quota(name, tier) for name in names]),
            _use(names, [agents[name].use.get(tier, {}) for name in readers], totals),
            held=self._tiers.get(tier, _NOTHING).held_by(names, readers),
            room=np.array([*offered.values(), DIRECT_ROOM * sum(offered.values()) or 1.0]),
            capacity=capacity,
        )
        *columns, direct = parts.T.tolist()
        return Division(
            jobs=names,
            agents=readers,
            parts=parts,
            columns=dict(zip(readers, columns, strict=True)),
            direct={
                job.name: Direct(part, job.host_count, of_hosts, total)
                for job, part, of_hosts, total in zip(holders, direct, used, totals, strict=True)
            },
        )


def _use(
    names: Sequence[str], by_agents: Sequence[Mapping[str, float]], direct: Sequence[float]
) -> Floats:
    """Return what each reader read lately ``float64 [jobs, agents + 1]`` [B/s]."""
    columns = [[used.get(name, 0.0) for name in names] for used in by_agents]
    return np.array([*columns, direct]).T
