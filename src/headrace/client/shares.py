"""Who is asked for which samples of a step: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.client.fleet import Member
from headrace.core.draws import SampleKey
from headrace.policy.placement import owners


@dataclass(frozen=True, slots=True)
class Share:
    """The samples of one step that one agent is asked for."""

    member: Member
    keys: tuple[SampleKey, ...]


def shares_of(keys: Sequence[SampleKey], members: Sequence[Member]) -> list[Share]:
    """Split a step's distinct samples over the agents by rendezvous hashing, order kept."""
    if not members or not keys:
        return []
    if len(members) == 1:
        return [Share(members[0], tuple(keys))]
    samples = np.array([key.sample for key in keys], dtype=np.int64)
    owner = owners(samples, tuple(member.name for member in members))
    shares: dict[int, list[SampleKey]] = {}
    for key, index in zip(keys, owner.tolist(), strict=True):
        shares.setdefault(index, []).append(key)
    return [Share(members[index], tuple(mine)) for index, mine in shares.items()]
