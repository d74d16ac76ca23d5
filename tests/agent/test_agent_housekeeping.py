"""What an agent does of itself now and then."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from headrace.agent import agent as agent_module
from headrace.agent.agent import Agent
from headrace.agent.config import AgentConfig
from headrace.agent.usage import Reading

NEEDED = 1 << 20


def test_memory_that_samples_needed_goes_back_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "HOUSEKEEPING_S", 0.01)
    agent = Agent(AgentConfig(token="t" * 32, roots=(tmp_path,), workers=0, memory_bytes=4 << 20))
    prepared = agent.engine.prepared
    arena = prepared._arena

    async def used_once() -> None:
        prepared.begin(1, NEEDED, Reading("job", "hdd", 1, 0.0))
        arena._view[:NEEDED] = b"x" * NEEDED
        prepared.free(1)
        assert os.fstat(arena.fd).st_blocks
        async with asyncio.timeout(20):
            while os.fstat(arena.fd).st_blocks:
                await asyncio.sleep(0.01)
        agent.stop()

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run(lambda _: None))
            group.create_task(used_once())

    asyncio.run(run())
