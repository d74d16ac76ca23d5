"""Who is asked for which samples of a step: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.client.member import Member
from headrace.core.draws import SampleKey
from headrace.policy.placement import ANYWHERE, Placement
from headrace.prepare.job import OpenJob
from headrace.prepare.places import Whereabouts


@dataclass(frozen=True, slots=True)
class Share:
    """The samples of one step that one agent is asked for."""

    member: Member
    keys: tuple[SampleKey, ...]
    beside: int = 0
    """How many of them lie on the nodes that the agent sits beside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The agents that may be asked now, and what is known of where samples lie."""

    members: tuple[Member, ...] = ()
    """By name."""

    where: Whereabouts | None = None
    placement: Placement | None = field(default=None, repr=False)
    """None without members."""

    @classmethod
    def of(cls, members: Sequence[Member], where: Whereabouts | None = None) -> Standing:
        """Return the standing of some agents."""
        ordered = tuple(sorted(members, key=lambda member: member.name))
        if not ordered:
            return cls(where=where)
        entries = [member.entry for member in ordered]
        placement = Placement(entries, where.holders if where else ())
        return cls(members=ordered, where=where, placement=placement)

    def preferred(self, sample: int) -> list[Member]:
        """Return all agents in the order in which they are to be asked for a sample."""
        if self.placement is None:
            return []
        number = int(self.where.sets(np.array([sample]))[0]) if self.where else ANYWHERE
        return [self.members[index] for index in self.placement.preference(sample, number)]


def shares_of(
    job: OpenJob, step: int, keys: Sequence[SampleKey], standing: Standing
) -> list[Share]:
    """Split a rank's samples of a step over the agents, order kept.

    The whole global batch is placed, as agents do it: who gets a heavy sample depends on what
    else is in the batch.
    """
    placement, where = standing.placement, standing.where
    if placement is None or not keys:
        return []
    if len(standing.members) == 1 and where is None:
        return [Share(standing.members[0], tuple(keys))]
    batch = job.schedule.batch(step).samples
    sets = where.sets(batch) if where else np.zeros(batch.size, np.uint32)
    owners = placement.owners(batch, job.costs(batch), sets)
    order = np.argsort(batch)
    own = order[np.searchsorted(batch[order], [key.sample for key in keys])]
    shares: dict[int, list[SampleKey]] = {}
    beside: dict[int, int] = {}
    for key, owner, number in zip(keys, owners[own].tolist(), sets[own].tolist(), strict=True):
        shares.setdefault(owner, []).append(key)
        beside[owner] = beside.get(owner, 0) + (owner in placement.beside(number))
    return [
        Share(standing.members[owner], tuple(mine), beside[owner]) for owner, mine in shares.items()
    ]
