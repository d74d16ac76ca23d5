"""Which links a job's bytes cross, from what agents sent to it and over which link: pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.controller.agents import Agent
from headrace.core.media import TierName


@dataclass(frozen=True, slots=True)
class Crossing:
    """Of every job, as far as agents told."""

    links: frozenset[TierName] = frozenset()
    """All that agents offer."""

    parts: Mapping[str, Mapping[TierName, float]] = field(default_factory=dict)
    """Job → link → part of what is sent to the job that crosses it, 0 to 1."""

    def of(self, job: str) -> Mapping[TierName, float]:
        """Return one job's parts.

        1 until an agent tells what it sends to the job: nobody is to wait for a link only
        because its use is not known yet.
        """
        found = self.parts.get(job)
        return dict.fromkeys(self.links, 1.0) if found is None else found


def crossing(agents: Collection[Agent]) -> Crossing:
    """Return which links jobs cross by what agents sent lately."""
    links = frozenset(
        offer.tier for agent in agents for offer in agent.offers if offer.media == "link"
    )
    if not links:
        return Crossing()
    sent = _added(agent.sent for agent in agents)
    over = {link: _added(agent.use.get(link, {}) for agent in agents) for link in links}
    return Crossing(
        links=links,
        parts={
            job: {link: min(over[link].get(job, 0.0) / total, 1.0) for link in links}
            for job, total in sent.items()
        },
    )


def _added(rates: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for of_agent in rates:
        for job, bytes_per_s in of_agent.items():
            total[job] += bytes_per_s
    return total
