"""Feeds the CPU guard several times a second and passes its word on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.policy.lookahead_events import GuardDecided

PERIOD_S = 0.1
"""Time between two looks at the CPU [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuState:
    """The latest look and what the guard made of it."""

    transform: bool
    workers: int
    reason: str = ""
    capacity_cores: float = 0.0
    others_cores: float = 0.0
    own_cores: float = 0.0


class CpuWatch:
    """The guard of one agent."""

    def __init__(self, engine: Engine, config: AgentConfig) -> None:
        self._engine = engine
        self.latest = CpuState(transform=True, workers=config.workers)

    async def run(self) -> None:
        """Look and decide until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            self._engine.handle(GuardDecided(workers=self.latest.workers, transform=True))
