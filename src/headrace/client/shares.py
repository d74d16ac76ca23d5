"""Who is asked for which samples of a step: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.client.member import Member
from headrace.core.draws import SampleKey
from headrace.core.parts import WHOLE, SamplePart
from headrace.policy.placement import ANYWHERE, Placement
from headrace.prepare.job import OpenJob
from headrace.prepare.pieces import name_of, pieces_of
from headrace.prepare.places import Whereabouts


class Piece(NamedTuple):
    """One sample of a step, or one part of it."""

    key: SampleKey
    part: SamplePart
    cost_s: float
    """CPU to prepare it, estimated from headers [s]."""

    @property
    def visit(self) -> tuple[int, int]:
        """Sample and epoch."""
        return self.key.sample, self.key.epoch


@dataclass(frozen=True, slots=True)
class Share:
    """What one agent is asked for of one step."""

    member: Member
    pieces: tuple[Piece, ...]
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


def pieces_of_keys(
    job: OpenJob, keys: Sequence[SampleKey], cuts: Mapping[str, int]
) -> tuple[Piece, ...]:
    """Return what some samples of a step are made in, order kept."""
    samples = np.array([key.sample for key in keys], np.int64)
    epochs = np.array([key.epoch for key in keys], np.int64)
    found = pieces_of(job, samples, epochs, cuts)
    if len(found.costs) == len(keys):
        return tuple(
            Piece(key, WHOLE, cost_s)
            for key, cost_s in zip(keys, found.costs.tolist(), strict=True)
        )
    own = iter(keys)
    pieces: list[Piece] = []
    for number, count, cost_s in zip(
        found.numbers.tolist(), found.counts.tolist(), found.costs.tolist(), strict=True
    ):
        key = next(own) if number == 0 else pieces[-1].key
        pieces.append(Piece(key, SamplePart(number, count) if count > 1 else WHOLE, cost_s))
    return tuple(pieces)


def shares_of(
    job: OpenJob,
    step: int,
    pieces: Sequence[Piece],
    standing: Standing,
    cuts: Mapping[str, int],
) -> list[Share]:
    """Split a rank's pieces of a step over the agents, order kept.

    The whole global batch is placed, as agents do it: who gets a heavy sample depends on what
    else is in the batch.
    """
    placement, where = standing.placement, standing.where
    if placement is None or not pieces:
        return []
    if len(standing.members) == 1 and where is None:
        return [Share(standing.members[0], tuple(pieces))]
    batch = job.schedule.batch(step)
    every = pieces_of(job, batch.samples, batch.epochs, cuts)
    sets = where.sets(every.samples) if where else np.zeros(every.samples.size, np.uint32)
    owners = placement.owners(every.names, every.costs, sets)
    order = np.argsort(every.names)
    wanted = [name_of(piece.key.sample, piece.part) for piece in pieces]
    own = order[np.searchsorted(every.names[order], wanted)]
    shares: dict[int, list[Piece]] = {}
    beside: dict[int, int] = {}
    for piece, owner, number in zip(pieces, owners[own].tolist(), sets[own].tolist(), strict=True):
        shares.setdefault(owner, []).append(piece)
        beside[owner] = beside.get(owner, 0) + (owner in placement.beside(number))
    return [
        Share(standing.members[owner], tuple(mine), beside[owner]) for owner, mine in shares.items()
    ]
