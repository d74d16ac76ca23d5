"""Parts of clips from real agents, whose workers and processes are killed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from epochs import digests, loading

from headrace import Loader
from headrace.agent.local import LocalAgent
from longclips import PIPELINE, long_clips

CLIPS, PICTURES = 4, 4
OPTIONS: dict[str, Any] = {"pipeline": PIPELINE, "batch_size": 2, "prefetch_steps": 2}
TOKEN = "a-token-for-tests-of-parts"
AGENT = ("--workers", "1", "--memory", "32MiB", "--cpu-threshold", "1")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_clips(tmp_path_factory.mktemp("parts") / "data", clips=CLIPS, pictures=PICTURES)


@pytest.fixture(scope="module")
def agents(dataset: Path) -> Iterator[list[LocalAgent]]:
    with (
        LocalAgent([dataset], token=TOKEN, options=AGENT) as one,
        LocalAgent([dataset], token=TOKEN, options=AGENT) as two,
    ):
        yield [one, two]


def test_once_they_are_foreseen_clips_lie_ready_in_parts_when_their_batches_are_asked_for(
    dataset: Path, agents: list[LocalAgent]
) -> None:
    addresses = [agent.address for agent in agents]
    with loading(dataset, agents=addresses, token=TOKEN, patience_s=20, **OPTIONS) as loader:
        deadline, step_s = time.monotonic() + 90, 0.1
        while not (is_made_by_agents(loader) and are_all_ready(loader)):
            assert time.monotonic() < deadline
            for _ in loader:
                time.sleep(step_s)  # what the training loop would do
            step_s *= 1.2  # this machine may be busy with others


def are_all_ready(loader: Loader) -> bool:
    counts = loader.summary().counts
    return counts.ready == counts.tensor


def test_batches_are_the_same_whoever_makes_parts_and_whoever_dies(
    dataset: Path, agents: list[LocalAgent]
) -> None:
    addresses = [agent.address for agent in agents]
    settings = {"agents": addresses, "token": TOKEN, "require_agents": True, **OPTIONS}
    with (
        loading(dataset, **OPTIONS) as alone,
        loading(dataset, patience_s=20, check_every=1, **settings) as loader,
    ):
        deadline = time.monotonic() + 60
        while not is_made_by_agents(loader):  # their golden vectors take a while
            assert digests(loader) == digests(alone)
            assert time.monotonic() < deadline
        assert loader.statistics().background.checks.different == 0
        for harm in (kill_workers, LocalAgent.kill):
            steps = iter(loader)
            found = digests([next(steps)])
            harm(agents[0])
            assert found + digests(steps) == digests(alone)


def is_made_by_agents(loader: Loader) -> bool:
    counts = loader.summary().counts
    return (counts.divided, counts.tensor, counts.hedged) == (CLIPS, CLIPS + PICTURES, 0)


def kill_workers(agent: LocalAgent) -> None:
    for worker in psutil.Process(agent.pid).children():
        worker.kill()
