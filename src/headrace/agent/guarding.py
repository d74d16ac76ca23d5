"""Feeds the CPU guard several times a second and passes its word on."""

from __future__ import annotations

import asyncio
import logging
import os

from headrace.agent.config import AgentConfig
from headrace.agent.cpu import CpuMeter
from headrace.agent.engine import Engine
from headrace.policy.guard import CpuReading, Guard, GuardDecision
from headrace.policy.lookahead_events import GuardDecided
from headrace.policy.weight import Weighing, WeightLimits

log = logging.getLogger("headrace.agent.guarding")

PERIOD_S = 0.1
"""Time between two looks at the CPU [s]."""

RESTING_PERIOD_S = 2.0
"""The same while there is nothing to do, when ten looks a second would be most of the agent's
work; it ends with the first request [s]."""


class CpuWatch:
    """The guard of one agent, and the latest it saw and said."""

    def __init__(self, engine: Engine, config: AgentConfig) -> None:
        self._engine = engine
        self._meter = CpuMeter(clock=engine.clock, scope=config.cpu_scope)
        self._guard = Guard(max(config.workers, 1), config.guard)
        self._weighing = Weighing(config.workers, WeightLimits(stop_share=config.guard.stop_share))
        self.reading: CpuReading = self._meter.read(())
        self.decision: GuardDecision = self._guard.observe(self.reading, engine.clock.now())
        self._weigh()

    @property
    def weight(self) -> int:
        """Part of the work that the agent can take, relative to others'."""
        return self._weighing.weight

    async def run(self) -> None:
        """Look and decide until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            if self._engine.rests:
                await self._engine.wait_until_used(RESTING_PERIOD_S)
            self._look()

    def _look(self) -> None:
        self.reading = self._meter.read((os.getpid(), *self._engine.pool.pids))
        before = self.decision
        self.decision = self._guard.observe(self.reading, self._engine.clock.now())
        self._weigh()
        if self.decision.transform != before.transform:
            log.info("%s", self.decision.reason or "the CPU is free again: transforms are back")
        self._engine.handle(
            GuardDecided(
                workers=self.decision.workers,
                transform=self.decision.transform,
                reason=self.decision.reason,
            )
        )

    def _weigh(self) -> None:
        self._weighing.observe(self.reading, self.decision, self._engine.clock.now())
