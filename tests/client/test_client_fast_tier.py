"""Agents with a fast tier: the same batches, fewer reads of where the dataset lies."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from epochs import digests, loading

from headrace import Batch, Pipeline
from headrace.agent.local import LocalAgent
from headrace.agent.statistics import AgentStatistics
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint

QUIET = ("--workers", "1", "--memory", "64MiB", "--cpu-threshold", "1", "--task-seconds", "120")


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """The pictures of the dataset in one tar file, many times."""
    root = tmp_path_factory.mktemp("sharded")
    with tarfile.open(root / "000.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for round_number in range(20):
            for picture in sorted(dataset.glob("*/*.jpg")):
                tar.add(picture, f"{round_number}-{picture.stem}.jpg")
    return root


def cached(directory: Path, nbytes: str = "64MiB", *more: str) -> tuple[str, ...]:
    return (*QUIET, "--cache", str(directory), "--cache-bytes", nbytes, *more)


def epochs(loader: object, count: int = 3) -> Iterator[Batch]:
    for _ in range(count):
        yield from loader  # type: ignore[misc]


def batches_of(
    dataset: Path, pipeline: Pipeline, agent: LocalAgent | None, count: int = 3
) -> list[str]:
    settings = {} if agent is None else {"agents": [agent.address], "token": agent.token}
    with loading(
        dataset, pipeline=pipeline, batch_size=4, patience_s=30, grace_s=30, **settings
    ) as loader:
        return digests(epochs(loader, count))


def statistics(agent: LocalAgent) -> AgentStatistics:
    connection = Connection(Endpoint(address=agent.address, token=agent.token))
    try:
        return connection.call("GET", "/v1/statistics", AgentStatistics)
    finally:
        connection.close()


def reads_in_runs(agent: LocalAgent) -> bool:
    found = statistics(agent).cache
    return found is not None and found.runs > 0


def test_later_epochs_are_read_from_the_fast_tier_and_look_the_same(
    dataset: Path, pipeline: Pipeline, tmp_path: Path
) -> None:
    expected = batches_of(dataset, pipeline, None)
    with LocalAgent([dataset], options=cached(tmp_path)) as agent:
        assert batches_of(dataset, pipeline, agent) == expected
        found = statistics(agent).cache
    assert found is not None
    assert found.hits > 24
    assert found.corrupt == 0
    assert found.off == ""


@pytest.mark.parametrize("has_cache", [True, False])
def test_a_loader_knows_of_a_cache_that_it_never_hit(
    dataset: Path, pipeline: Pipeline, tmp_path: Path, has_cache: bool
) -> None:
    options = cached(tmp_path) if has_cache else QUIET
    with LocalAgent([dataset], options=options) as agent:
        settings = {"agents": [agent.address], "token": agent.token, "patience_s": 30}
        with loading(dataset, pipeline=pipeline, batch_size=4, grace_s=30, **settings) as loader:
            next(iter(loader))
            counts = loader.summary().counts
    assert counts.hit_bytes.total() == 0
    assert counts.cache_bytes == has_cache * counts.tier_bytes.total()
    assert counts.tier_bytes.total() > 0


def test_reordered_reads_give_the_same_batches(
    shard: Path, pipeline: Pipeline, tmp_path: Path
) -> None:
    expected = batches_of(shard, pipeline, None, count=1)
    with LocalAgent([shard], options=cached(tmp_path, "64MiB", "--reorder", "always")) as agent:
        settings = {"agents": [agent.address], "token": agent.token, "patience_s": 30}
        with loading(shard, pipeline=pipeline, batch_size=4, grace_s=30, **settings) as loader:
            deadline = time.monotonic() + 60
            while not reads_in_runs(agent) and time.monotonic() < deadline:
                time.sleep(0.1)  # until workers may transform, and so look ahead
            assert digests(loader) == expected
        found = statistics(agent).cache
    assert found is not None
    assert found.runs >= 1
    assert found.run_samples > 20
    assert found.runs_failed == found.corrupt == 0


def test_nothing_is_left_of_a_fast_tier_whose_agent_was_killed(
    dataset: Path, pipeline: Pipeline, tmp_path: Path
) -> None:
    expected = batches_of(dataset, pipeline, None)
    with LocalAgent([dataset], options=cached(tmp_path)) as agent:
        assert batches_of(dataset, pipeline, agent) == expected
        agent.kill()
        assert list(tmp_path.iterdir()) == []
        agent.start()
        assert batches_of(dataset, pipeline, agent) == expected


def test_an_agent_whose_disk_has_no_room_serves_without_a_fast_tier(
    dataset: Path, pipeline: Pipeline, tmp_path: Path
) -> None:
    options = cached(tmp_path, "1000TB")
    with (
        (tmp_path / "words").open("wb") as words,
        LocalAgent([dataset], options=options, stderr=words) as agent,
    ):
        assert statistics(agent).cache is None
    assert b"has no room" in (tmp_path / "words").read_bytes()
