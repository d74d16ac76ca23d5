"""Which links a job's bytes cross, from what each agent sent to it: pure.

All that an agent sends leaves its host by every link that it offers.
"""

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
    behind: defaultdict[TierName, list[Agent]] = defaultdict(list)
    for agent in agents:
        for offer in agent.offers:
            if offer.media == "link":
                behind[offer.tier].append(agent)
    if not behind:
        return Crossing()
    sent = _sent(agents)
    over = {link: _sent(senders) for link, senders in behind.items()}
    return Crossing(
        links=frozenset(behind),
        parts={
            job: {link: found.get(job, 0.0) / total for link, found in over.items()}
            for job, total in sent.items()
        },
    )


def _sent(agents: Iterable[Agent]) -> Mapping[str, float]:
    """Return job → what these agents send to it together [B/s]."""
    total: defaultdict[str, float] = defaultdict(float)
    for agent in agents:
        for job, bytes_per_s in agent.sent.items():
            total[job] += bytes_per_s
    return total
