"""The form of what can be asked of the controller, and of one request, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.replicating.replicating import Replicating
from headrace.controller.steward import Steward
from headrace.core.errors import CallerError
from headrace.core.keys import key_hint

MOST_BYTES = 16 << 20
"""Longest message but a health report: an agent tells of every job that has a quota [bytes]."""

ANYTHING: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What of a controller requests act on."""

    steward: Steward
    hotspots: HotspotDesk
    replicating: Replicating


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request, taken apart."""

    parts: Parts
    names: Mapping[str, str]
    """What stands in the path."""

    query: Mapping[str, str]
    message: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One thing that can be asked."""

    method: str
    path: str
    summary: str
    act: Callable[[Asked], msgspec.Struct | None]
    """What it does; None is answered with 204."""

    answers: type[msgspec.Struct] | None = None
    takes: type[msgspec.Struct] | None = None
    most_bytes: int = MOST_BYTES
    waits: bool = False
    """``act`` may wait for a store or another host: it is called in a thread, never in the one
    that answers requests."""

    queries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name that may stand in the query → what may be asked for; none named: anything."""

    def check(self, query: Mapping[str, str]) -> None:
        """Make sure that a query asks for what is known here: a filter must not be ignored.

        Raises:
            CallerError: it does not.
        """
        for name, value in query.items():
            if name not in self.queries:
                hint = key_hint(name, tuple(self.queries)) if self.queries else "leave it out"
                raise CallerError(f"{self.method} {self.path} knows no {name!r} in a query; {hint}")
            if self.queries[name] and value not in self.queries[name]:
                known = ", ".join(self.queries[name])
                raise CallerError(f"{name}={value!r} makes no sense; give one of {known}")
