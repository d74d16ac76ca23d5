"""A controller on the emulated cluster: its policy is chosen, what it decides is written down.

Reports, orders and enforcement are those of ``headrace controller``; only who decides differs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import msgspec
import uvloop

from headrace.controller.config import ControllerConfig
from headrace.controller.controller import Controller, ReadyMessage
from headrace.core.media import TierName
from headrace.policy.reservation.arbiter import Arbiter
from headrace.policy.reservation.events import (
    Action,
    Diagnosed,
    Event,
    JobJoined,
    SetQuota,
    TierChanged,
)
from headrace.sim.rivals.static import StaticQuotas
from headrace.wire.listening import Listen

PORT = 7410


class GovernorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller on the bed is told, as JSON on its command line."""

    listen: str
    token: str
    decisions: str
    """File that decisions are written to."""
    ready: str
    """File that appears when it answers."""
    journal: str | None = None
    static: dict[str, dict[TierName, float]] | None = None
    """Mean needs by job, to set static quotas from [B/s]; None: headrace's own policy."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file."""

    at_s: float
    """Since 1970 [s]."""
    kind: str
    action: msgspec.Raw


class Recorded(Arbiter):
    """headrace's policy, which tells what it decides."""

    def __init__(self, tell: Callable[[Action], None]) -> None:
        super().__init__()
        self._tell = tell

    def handle(self, event: Event, now: float) -> list[Action]:
        """Decide, and tell."""
        actions = self.decide(event, now)
        for action in actions:
            self._tell(action)
        return actions

    def decide(self, event: Event, now: float) -> list[Action]:
        """Return what is to be done."""
        return super().handle(event, now)


class Fixed(Recorded):
    """Static quotas; health is watched and diagnosed as ever, and changes nothing."""

    def __init__(
        self, tell: Callable[[Action], None], needs: dict[str, dict[TierName, float]]
    ) -> None:
        super().__init__(tell)
        self._needs = needs
        self._offered: dict[TierName, TierChanged] = {}
        self._joined: set[str] = set()

    def decide(self, event: Event, now: float) -> list[Action]:
        """Return diagnoses, and the quotas of whoever joins."""
        said: list[Action] = [a for a in super().decide(event, now) if isinstance(a, Diagnosed)]
        if isinstance(event, TierChanged):
            self._offered[event.tier] = event
        elif isinstance(event, JobJoined):
            self._joined.add(event.job)
        else:
            return said
        rival = StaticQuotas(self._needs)
        quotas = [a for tier in self._offered.values() for a in rival.handle(tier, now)]
        return said + [a for a in quotas if isinstance(a, SetQuota) and a.job in self._joined]


def read_decisions(file: Path) -> Iterator[tuple[float, Action]]:
    """Yield (time since 1970 [s], decision) in order of time."""
    kinds = {kind.__name__: kind for kind in get_args(Action)}
    for line in file.read_bytes().splitlines():
        decision = msgspec.json.decode(line, type=Decision)
        yield decision.at_s, msgspec.json.decode(decision.action, type=kinds[decision.kind])


def main(plan: GovernorPlan) -> None:
    """Serve until told to stop."""
    config = ControllerConfig(
        token=plan.token,
        listen=Listen.parse(plan.listen),
        journal=Path(plan.journal) if plan.journal else None,
    )
    with Path(plan.decisions).open("ab", buffering=0) as file:

        def tell(action: Action) -> None:
            kind, said = type(action).__name__, msgspec.Raw(msgspec.json.encode(action))
            decision = Decision(at_s=time.time(), kind=kind, action=said)
            file.write(msgspec.json.encode(decision) + b"\n")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(plan, config, tell))


async def _serve(
    plan: GovernorPlan, config: ControllerConfig, tell: Callable[[Action], None]
) -> None:
    def ready(message: ReadyMessage) -> None:
        Path(plan.ready).write_text(message.address)

    controller = Controller(config)
    policy = Recorded(tell) if plan.static is None else Fixed(tell, plan.static)
    controller.parts.steward.arbiter = policy
    await controller.run(ready, parent=os.getppid())


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=GovernorPlan))
