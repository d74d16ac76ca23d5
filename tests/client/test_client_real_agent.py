"""The loader against real agents, which are stopped, killed and started again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from epochs import digests, epoch, loading

from headrace import Batch, Pipeline
from headrace.agent.local import LocalAgent
from headrace.client import sources
from headrace.core.errors import NotFoundError

OPTIONS = ("--workers", "1", "--memory", "64MiB")
STEPS = 12


@pytest.fixture(scope="module")
def expected(dataset: Path, pipeline: Pipeline) -> list[str]:
    with loading(dataset, pipeline=pipeline, batch_size=4) as loader:
        return digests(_steps(loader))


@pytest.fixture
def agent(dataset: Path) -> Iterator[LocalAgent]:
    with LocalAgent([dataset], options=OPTIONS) as agent:
        yield agent


def _steps(loader: object) -> Iterator[Batch]:
    for _ in range(2):
        yield from loader  # type: ignore[misc]


def test_an_agent_makes_the_same_batches(
    dataset: Path, pipeline: Pipeline, expected: list[str], agent: LocalAgent
) -> None:
    settings = {"agents": [agent.address], "token": agent.token, "batch_size": 4}
    with loading(
        dataset, pipeline=pipeline, patience_s=20, check_every=2, require_agents=True, **settings
    ) as loader:
        assert digests(_steps(loader)) == expected
        counts = loader.summary().counts
        assert counts.tensor + counts.raw.total() >= 24 - counts.substituted
        assert counts.local == counts.hedged == 0
        assert loader.statistics().background.checks.different == 0


def test_two_ranks_share_an_agent(dataset: Path, pipeline: Pipeline, agent: LocalAgent) -> None:
    settings = {"agents": [agent.address], "token": agent.token, "pipeline": pipeline}
    for rank in range(2):
        alone = epoch(dataset, pipeline=pipeline, rank=rank, world=2)
        assert epoch(dataset, rank=rank, world=2, patience_s=20, **settings) == alone


def test_an_agent_that_is_killed_and_comes_back_costs_nothing_but_time(
    dataset: Path, pipeline: Pipeline, expected: list[str], agent: LocalAgent
) -> None:
    settings = {"agents": [agent.address], "token": agent.token, "batch_size": 4}
    seen = []
    with loading(dataset, pipeline=pipeline, prefetch_steps=2, **settings) as loader:
        for batch in _steps(loader):
            seen.append(batch)
            if batch.step == 2:
                agent.kill()
            if batch.step == 5:
                assert _state(loader) == "down"
                agent.start()
                deadline = time.monotonic() + 20
                while _state(loader) != "up" and time.monotonic() < deadline:
                    time.sleep(0.05)
                assert _state(loader) == "up"
    assert digests(seen) == expected


def test_an_agent_that_freezes_is_left_out(
    dataset: Path, pipeline: Pipeline, expected: list[str], agent: LocalAgent
) -> None:
    settings = {"agents": [agent.address], "token": agent.token, "batch_size": 4}
    quick = {"patience_s": 0.2, "grace_s": 0.2}
    try:
        with loading(dataset, pipeline=pipeline, prefetch_steps=2, **settings, **quick) as loader:
            seen = []
            for batch in _steps(loader):
                seen.append(batch)
                if batch.step == 2:
                    os.kill(agent.pid, signal.SIGSTOP)
            assert _state(loader) == "down"
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    assert digests(seen) == expected
    assert len(seen) == STEPS


def _state(loader: object) -> str:
    return loader.statistics().background.agents[0].state  # type: ignore[attr-defined]


def test_a_trainer_that_cannot_see_the_files_gets_index_and_bytes_from_agents(
    dataset: Path, pipeline: Pipeline, agent: LocalAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = epoch(dataset, pipeline=pipeline)

    def unseen(url: str) -> object:
        raise NotFoundError(f"{url} is not there")

    monkeypatch.setattr(sources, "open_storage", unseen)
    settings = {"agents": [agent.address], "token": agent.token, "pipeline": pipeline}
    with loading(dataset, **settings) as loader:
        assert loader.job.sources[0].reader is None
        assert digests(loader) == expected
        assert loader.summary().counts.substituted == 1
    with pytest.raises(NotFoundError, match=r"no agent serves it.*outside this agent's roots"):
        epoch("/elsewhere", **settings)
