"""Training that goes on with other ranks, agents and stores: the same global batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from client.epochs import rows
from headrace import Batch, Loader
from headrace.agent.local import LocalAgent
from headrace.devhdfs.cluster import Cluster
from integration.agents import agent_statistics
from integration.test_integration_cache import FLIPPED, bucket_of, shard
from integration.test_integration_hdfs import upload
from stores.seaweed import Seaweed, as_client

__all__ = ["shard"]  # a fixture

STEPS = random.Random(8).choices(range(1, 4), k=3)
STRETCHES = ((3, STEPS[0], True), (8, STEPS[1], False), (1, STEPS[2], True), (2, None, True))
"""(ranks, steps, whether through the agent) of one run after another; None: all that are left."""

OPTIONS: dict[str, Any] = {
    "pipeline": FLIPPED,
    "seed": 5,
    "batch_size": 7,
    "tail": "short",
    "order": "block",
    "block": 4,
}
AGENT = (
    *("--workers", "1", "--worker-memory", "512MiB", "--cpu-threshold", "1"),
    *("--memory", "96MiB", "--cache-memory", "32MiB"),
)


@pytest.fixture(scope="module")
def expected(shard: Path) -> list[list[str]]:
    """Every byte of each row of two epochs, of one rank alone."""
    with Loader(str(shard), workers=1, **OPTIONS) as loader:
        return [rows(batch) for _ in range(2) for batch in loader]


@pytest.fixture(scope="module")
def urls(shard: Path, hdfs: Cluster, s3_server: Seaweed) -> Iterator[dict[str, str]]:
    """The same shard in stores of all kinds."""
    with as_client(s3_server.environment):
        s3_url = bucket_of(s3_server, shard, "resumed")
        yield {"local": str(shard), "hdfs": upload(shard, hdfs), "s3": s3_url}


@pytest.fixture(scope="module")
def agent(urls: dict[str, str]) -> Iterator[LocalAgent]:
    with LocalAgent(list(urls.values()), options=AGENT) as agent:
        yield agent


@pytest.mark.parametrize("store", ["local", "hdfs", "s3"])
def test_ranks_of_any_world_with_or_without_an_agent_go_on_with_the_same_global_batches(
    urls: dict[str, str], agent: LocalAgent, expected: list[list[str]], store: str
) -> None:
    link = {"agents": [agent.address], "token": agent.token, "patience_s": 20.0}
    before = agent_statistics(agent)["cache"]["hits"]
    seen: list[list[str]] = []
    state = None
    for world, steps, through_agent in STRETCHES:
        count = len(expected) - len(seen) if steps is None else steps
        options = {**OPTIONS, **(link if through_agent else {})}
        parts, state = run_of_a_world(urls[store], options, world, state, count)
        seen += parts
    assert seen == expected
    assert agent_statistics(agent)["cache"]["hits"] > before, "the second epoch's samples"


def run_of_a_world(
    url: str, options: dict[str, Any], world: int, state: dict[str, Any] | None, steps: int
) -> tuple[list[list[str]], dict[str, Any]]:
    """Return global batches as all ranks see them together, and the state that all agree in."""
    with ExitStack() as running:
        loaders = [
            running.enter_context(Loader(url, workers=1, **options, rank=rank, world=world))
            for rank in range(world)
        ]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        parts = [list(islice(endless(loader), steps)) for loader in loaders]
        states = [loader.state_dict() for loader in loaders]
    assert all(one == states[0] for one in states)
    together = [
        [row for batch in batches for row in rows(batch)] for batches in zip(*parts, strict=True)
    ]
    return together, states[0]


def endless(loader: Loader) -> Iterator[Batch]:
    while True:
        yield from loader
