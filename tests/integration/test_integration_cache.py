"""Jobs that need other results of the same bytes: an agent reads each sample once for all."""

from __future__ import annotations

import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace import Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.dataset.index import DEFAULT_PATH
from headrace.storage.opening import open_storage
from integration.agents import agent_statistics, wait_until_proven
from integration.test_integration_same_bytes import batch_digest
from stores.faulty import Faulty
from stores.seaweed import BUCKET, Seaweed, as_client

OPTIONS = ("--workers", "2", "--memory", "96MiB", "--cpu-threshold", "1")
IN_MEMORY = ("--cache-memory", "32MiB")
SAMPLES = 40
TAR = "shards/000.tar"

SMALL = Pipeline([ops.DecodeImage(), ops.Resize(48), ops.CenterCrop(48)])
FLIPPED = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(32), ops.RandomHorizontalFlip(0.5)])
JOBS: list[dict[str, Any]] = [
    {"pipeline": SMALL, "seed": 11, "batch_size": 8},
    {"pipeline": FLIPPED, "seed": 12, "batch_size": 5},
]
"""They share nothing but the dataset: neither order, pipeline, draws nor batches."""


@pytest.fixture(scope="module")
def shard(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole pictures in one tar file."""
    root = tmp_path_factory.mktemp("sharded")
    (root / "shards").mkdir()
    whole = [path for path in sorted(dataset.glob("*/*.jpg")) if "cut" not in path.name]
    with tarfile.open(root / TAR, "w") as tar:
        for picture in whole[:SAMPLES]:
            tar.add(picture, picture.name)
    return root


@pytest.fixture(scope="module")
def expected(shard: Path) -> list[list[str]]:
    """The batches of both jobs without an agent."""
    found = []
    for job in JOBS:
        with Loader(str(shard), workers=1, **job) as loader:
            found.append(epochs(loader))
    return found


def epochs(loader: Loader) -> list[str]:
    return [batch_digest(batch) for _ in range(2) for batch in loader]


def both(url: str, agent: LocalAgent) -> list[list[str]]:
    """Run both jobs at the same time, once the agent transforms for them; return their batches."""
    link = {"agents": [agent.address], "token": agent.token, "patience_s": 30.0, "grace_s": 30.0}
    given = [{"workers": 1, "check_every": 0, **link, **job} for job in JOBS]
    for number, options in enumerate(given):
        with Loader(url, prefetch_steps=1, **options):
            wait_until_proven(agent, jobs=number + 1)
    with ExitStack() as open_loaders, ThreadPoolExecutor() as threads:
        loaders = [open_loaders.enter_context(Loader(url, **options)) for options in given]
        return list(threads.map(epochs, loaders))


def bucket_of(server: Seaweed, shard: Path, folder: str) -> str:
    """Upload a dataset and index it there; return its URL."""
    server.upload(shard, folder)
    url = f"s3://{BUCKET}/{folder}"
    open_storage(url).delete(DEFAULT_PATH)
    Loader(url, batch_size=1).close()
    return url


def test_a_bucket_is_asked_once_for_each_sample(
    s3: Seaweed, shard: Path, expected: list[list[str]]
) -> None:
    url = bucket_of(s3, shard, "once")
    with Faulty(s3.endpoint) as proxy, as_client({"AWS_ENDPOINT_URL": proxy.endpoint}):
        with LocalAgent([url], options=(*OPTIONS, *IN_MEMORY)) as agent:
            assert both(url, agent) == expected
            cache = agent_statistics(agent)["cache"]
            assert cache["memory_hits"] == cache["hits"] > 2 * SAMPLES
        reads = [line for line in proxy.requests if line.startswith("GET") and ".tar" in line]
    assert cache["misses"] == SAMPLES
    # What an agent on a busy host is late with, its trainer reads by itself.
    assert SAMPLES <= len(reads) <= 1.25 * SAMPLES, "about one range a sample, not four"
