"""Jobs of a sweep read the same samples: an agent makes each of them once and serves it to all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import Batch, Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.core.digest import name_digest
from integration.agents import agent_statistics, wait_until_proven

OPTIONS = ("--cpu-threshold", "1", "--workers", "2")
EPOCHS = 2


def digests(loader: Loader) -> list[str]:
    """Name every byte of each batch of two epochs."""
    return [_digest(batch) for _ in range(EPOCHS) for batch in loader]


def _digest(batch: Batch) -> str:
    columns = ((name, np.asarray(batch[name])) for name in sorted(batch))
    parts = [
        (name.encode(), str(column.dtype).encode(), column.tobytes()) for name, column in columns
    ]
    return name_digest(*(part for column in parts for part in column))


@pytest.fixture
def agent(dataset: Path) -> Iterator[LocalAgent]:
    with LocalAgent([dataset], options=OPTIONS) as agent:
        yield agent


@pytest.mark.parametrize("other", [{"run": "another"}, {"batch_size": 12}, {"tail": "short"}])
def test_two_jobs_of_the_same_samples_have_them_made_once(
    dataset: Path, pipeline: Pipeline, agent: LocalAgent, other: dict[str, Any]
) -> None:
    jobs = [{"batch_size": 8, "seed": 11, "pipeline": pipeline, **more} for more in ({}, other)]
    expected = []
    for options in jobs:
        with Loader(dataset, **options) as loader:
            expected.append(digests(loader))
    with ExitStack() as open_loaders, ThreadPoolExecutor() as threads:
        at = {"agents": [agent.address], "token": agent.token, "patience_s": 20.0}
        loaders = [open_loaders.enter_context(Loader(dataset, **at, **job)) for job in jobs]
        wait_until_proven(agent, jobs=2)
        assert list(threads.map(digests, loaders)) == expected
        counts = [loader.summary().counts for loader in loaders]
        found = agent_statistics(agent)
    made = found["counts"]
    served = made.get("ready", 0) + made.get("waited", 0)
    assert served > 1.8 * EPOCHS * 60, found
    assert made["finished"] - found["prepared"] < 0.65 * served, found
    assert made["shared"] > 0.35 * served, found
    assert sum(count.shared for count in counts) > 0.35 * 120
    told = sum(count.tier_bytes.total() for count in counts)
    stored = sum(path.stat().st_size for path in dataset.rglob("*") if path.is_file())
    assert 0 < told <= stored, "what was read once for both is told of once"
