"""Agents over a real HDFS: the same batches as a loader alone, whatever fails in between."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.client import sources
from headrace.client.counts import Counts
from headrace.core.errors import AgentUnavailableError, ConfigError
from headrace.devhdfs.cluster import Cluster
from headrace.storage.opening import open_storage
from integration.agents import wait_until_proven
from integration.test_integration_same_bytes import batch_digest

OPTIONS = ("--workers", "1", "--memory", "128MiB", "--cpu-threshold", "1")
LITTLE_MEMORY = ("--worker-memory", "512MiB")
"""Enough for pictures, and for what reading HDFS takes."""

Between = Callable[[int], None]


def upload(dataset: Path, cluster: Cluster) -> str:
    """Copy a directory into a new one of a cluster, but for hidden folders; return its URL."""
    folder = f"agents-{secrets.token_hex(4)}"  # an index belongs to the files it was made of
    storage = open_storage(f"{cluster.url}/")

    def copy(file: Path) -> None:
        storage.write(f"{folder}/{file.relative_to(dataset)}", file.read_bytes())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(copy, dataset.glob("[!.]*/*")))
    storage.close()
    return f"{cluster.url}/{folder}"


def run_epoch(loader: Loader, between: Between = lambda _: None) -> tuple[list[str], Counts]:
    """Return the digests of one epoch's batches, and what became of its samples."""
    digests = []
    for batch in loader:
        digests.append(batch_digest(batch))
        between(batch.step)
    return digests, loader.summary().counts


def loading(
    url: str, pipeline: Pipeline, agent: LocalAgent | None = None, **options: Any
) -> Loader:
    """Return a loader with an agent, if there is one."""
    if agent is not None:
        options |= {"agents": [agent.address], "token": agent.token, "patience_s": 20}
    return Loader(url, pipeline=pipeline, batch_size=8, seed=5, tail="pad", workers=2, **options)


@pytest.fixture(scope="module")
def expected(dataset: Path, pipeline: Pipeline) -> list[str]:
    """The batches of the same files in a local directory."""
    with loading(str(dataset), pipeline) as loader:
        return run_epoch(loader)[0]


@pytest.fixture(scope="module")
def in_hdfs(hdfs: Cluster, dataset: Path) -> str:
    """The dataset in HDFS, with the index that a loader made of it."""
    url = upload(dataset, hdfs)
    loading(url, Pipeline([])).close()
    return url


def test_a_loader_over_hdfs_alone_makes_the_batches_of_a_local_directory(
    in_hdfs: str, pipeline: Pipeline, expected: list[str]
) -> None:
    with loading(in_hdfs, pipeline) as loader:
        assert run_epoch(loader)[0] == expected


def test_an_agent_over_hdfs_transforms_and_makes_the_same_batches(
    in_hdfs: str, pipeline: Pipeline, expected: list[str]
) -> None:
    with (
        LocalAgent([in_hdfs], options=(*OPTIONS, *LITTLE_MEMORY)) as agent,
        loading(in_hdfs, pipeline, agent, require_agents=True, check_every=3) as loader,
    ):
        wait_until_proven(agent)
        digests, counts = run_epoch(loader)
        assert digests == expected
        assert counts.tensor > len(digests), "the agent transforms"
        assert counts.local == counts.hedged == 0
        assert loader.statistics().background.checks.different == 0


def test_a_trainer_without_hdfs_gets_index_and_bytes_from_agents(
    in_hdfs: str,
    pipeline: Pipeline,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unseen(url: str) -> object:
        raise ConfigError(f"cannot open {url}: HDFS needs the package hdfs-native")

    monkeypatch.setattr(sources, "open_storage", unseen)
    with (
        LocalAgent([in_hdfs], options=OPTIONS) as agent,
        loading(in_hdfs, pipeline, agent) as loader,
    ):
        assert loader.job.sources[0].reader is None
        assert "hdfs-native" in caplog.text
        assert run_epoch(loader)[0] == expected


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_agent_waits_for_hdfs_and_outlives_a_datanode(
    hdfs_cluster: Callable[..., Cluster], dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    cluster = hdfs_cluster(datanodes=2, block_size=1 << 20, replication=2)
    url = upload(dataset, cluster)
    loading(url, pipeline).close()
    cluster.namenode.kill()
    with LocalAgent([url], options=OPTIONS) as agent:
        with pytest.raises(AgentUnavailableError, match=r"no agent can be asked.*NameNode"):
            loading(url, pipeline, agent)
        cluster.namenode.start()
        cluster.wait_ready()
        faults = {1: cluster.datanodes[0].kill}
        with loading(url, pipeline, agent, prefetch_steps=2) as loader:
            wait_until_proven(agent)
            digests, counts = run_epoch(loader, lambda step: faults.pop(step, lambda: None)())
        assert digests == expected
        assert counts.tensor > 0
        assert counts.substituted == 2, "the two cut pictures, and nothing that failed to be read"
