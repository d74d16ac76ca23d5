"""An agent that may be asked now."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.roster import RosterEntry
from headrace.wire.endpoint import Endpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """An agent that may be asked now."""

    endpoint: Endpoint
    name: str
    boot: str
    hosts: tuple[str, ...] = ()
    """Names and addresses of the storage nodes beside it."""

    weight: int = 1
    """Its part of the work, relative to the others'."""

    raw_only: str = ""
    """Why it said that it serves raw bytes only; it may come round, so it is asked all the same."""

    distrusted: str = ""
    """Why it is asked for raw bytes only, whatever it offers."""

    @property
    def entry(self) -> RosterEntry:
        """What other agents are told of it."""
        return RosterEntry(name=self.name, hosts=self.hosts, weight=self.weight)
