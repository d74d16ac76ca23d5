"""Who shares a job's samples: the part of placement that travels."""

from __future__ import annotations

import msgspec

from headrace.core.errors import ConfigError

MOST_WEIGHT = 1 << 20
"""Largest weight that an agent may state."""


class RosterEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent of a job, as clients tell all agents of it."""

    name: str
    """Its name, unique among the agents of the job."""

    hosts: tuple[str, ...] = ()
    """Names and addresses under which the storage nodes beside it are known."""

    weight: int = 1
    """Its part of the work, relative to the other weights."""

    def __post_init__(self) -> None:
        if not 1 <= self.weight <= MOST_WEIGHT:
            raise ConfigError(
                f"agent {self.name}: weight {self.weight} must lie in [1, {MOST_WEIGHT}]"
            )
