"""One epoch's batches are the same bytes wherever, by how many, and despite what they were made."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.client.batch import Batch
from headrace.client.counts import Counts
from headrace.core.digest import name_digest
from integration.agents import agent_statistics, wait_until_proven

NEVER_BUSY = ("--cpu-threshold", "1")
"""The guard has tests of its own; these must pass beside whatever else the machine does."""

BATCH = 8
EPOCHS = 2

Between = Callable[[Loader, int], None]
"""What is done after a step."""


def batch_digest(batch: Batch) -> str:
    """Name every byte of a batch, and the rows that each column belongs to."""
    parts = []
    for name in sorted(batch):
        column = np.asarray(batch[name])
        parts += [name.encode(), str((column.dtype, column.shape)).encode(), column.tobytes()]
        parts.append(batch.rows(name).tobytes())
    return name_digest(*parts)


def run_epochs(
    dataset: Path,
    pipeline: Pipeline,
    *,
    between: Between = lambda _loader, _step: None,
    proven: Sequence[LocalAgent] = (),
    **options: Any,
) -> tuple[list[str], Counts]:
    """Return the digests of all batches of two epochs, and what became of the samples.

    The first batch is asked for once the agents in ``proven`` made their golden vectors.
    """
    total = Counts()
    digests = []
    with Loader(
        dataset, pipeline=pipeline, batch_size=BATCH, seed=11, tail="short", **options
    ) as loader:
        for agent in proven:
            wait_until_proven(agent)
        for _ in range(EPOCHS):
            for batch in loader:
                digests.append(batch_digest(batch))
                between(loader, batch.step)
            total.add(loader.summary().counts)
    return digests, total


@pytest.fixture(scope="module")
def expected(dataset: Path, pipeline: Pipeline) -> list[str]:
    """The batches as one thread in this process makes them."""
    digests, counts = run_epochs(dataset, pipeline, workers=1)
    assert len(digests) == len(set(digests)) == EPOCHS * -(-66 // BATCH)
    assert counts.substituted == EPOCHS * 2, "both cut pictures are replaced, once an epoch"
    return digests


def test_four_threads_make_what_one_makes(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    assert run_epochs(dataset, pipeline, workers=4)[0] == expected


@pytest.mark.parametrize("workers", [1, 4])
def test_an_agents_workers_make_what_the_trainer_makes(
    dataset: Path, pipeline: Pipeline, expected: list[str], workers: int
) -> None:
    with LocalAgent([dataset], options=[*NEVER_BUSY, "--workers", str(workers)]) as agent:
        digests, counts = run_epochs(
            dataset,
            pipeline,
            agents=[agent.address],
            token=agent.token,
            proven=[agent],
            patience_s=20.0,
        )
    assert digests == expected
    assert counts.tensor >= 0.9 * counts.samples - counts.substituted, counts


def test_two_agents_share_the_samples(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    with (
        LocalAgent(
            [dataset], token="a-token-that-both-share", options=[*NEVER_BUSY, "--workers", "1"]
        ) as one,
        LocalAgent(
            [dataset], token="a-token-that-both-share", options=[*NEVER_BUSY, "--workers", "1"]
        ) as other,
    ):
        addresses = [one.address, other.address]
        digests, counts = run_epochs(
            dataset,
            pipeline,
            agents=addresses,
            token="a-token-that-both-share",
            proven=[one, other],
            patience_s=20.0,
        )
    assert digests == expected
    assert counts.tensor > 0.8 * counts.samples


def test_raw_bytes_lead_to_the_same_batches(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    with LocalAgent([dataset], options=[*NEVER_BUSY, "--workers", "0"]) as agent:
        digests, counts = run_epochs(dataset, pipeline, agents=[agent.address], token=agent.token)
    assert digests == expected
    assert counts.tensor == 0
    assert sum(counts.raw.values()) >= 0.9 * counts.samples, counts


def test_every_rank_count_sees_the_same_samples(dataset: Path, pipeline: Pipeline) -> None:
    def rows(world: int) -> list[list[tuple[int, bytes]]]:
        steps: dict[int, list[tuple[int, bytes]]] = {}
        for rank in range(world):
            with Loader(
                dataset, pipeline=pipeline, batch_size=BATCH, seed=11, rank=rank, world=world
            ) as loader:
                for batch in loader:
                    images = dict(zip(batch.rows("image"), batch["image"], strict=True))
                    steps.setdefault(batch.step, []).extend(
                        (int(sample), images[row].tobytes() if row in images else b"")
                        for row, sample in enumerate(batch["sample"])
                    )
        return [steps[step] for step in sorted(steps)]

    assert rows(1) == rows(3)


@contextmanager
def killing_workers(agent: LocalAgent, every_s: float) -> Iterator[list[int]]:
    """SIGKILL the agent's workers in turn, one every so often, once it transforms."""
    killed: list[int] = []
    stop = threading.Event()

    def kill_one() -> None:
        wait_until_proven(agent)
        while not stop.wait(every_s):
            workers = psutil.Process(agent.pid).children()
            oldest = min(workers, key=lambda worker: worker.create_time(), default=None)
            if oldest is not None:
                os.kill(oldest.pid, signal.SIGKILL)
                killed.append(oldest.pid)

    thread = threading.Thread(target=kill_one)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


def test_killed_workers_cost_time_and_nothing_else(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    with (
        LocalAgent([dataset], options=[*NEVER_BUSY, "--workers", "2"]) as agent,
        killing_workers(agent, 2.0) as killed,
    ):
        digests, counts = run_epochs(
            dataset,
            pipeline,
            agents=[agent.address],
            token=agent.token,
            proven=[agent],
            between=lambda _loader, _step: time.sleep(0.4),
        )
        assert agent.is_running
    assert digests == expected
    assert len(killed) >= 2
    assert counts.tensor > 0, "the agent went on making samples"


def wait_until_up(loader: Loader) -> None:
    """Wait until a loader knows that its one agent transforms; it asks ever more seldom."""
    deadline = time.monotonic() + 30
    while (agents := loader.statistics().background.agents)[0].state != "up":
        assert time.monotonic() < deadline, agents
        time.sleep(0.05)


def test_an_agent_that_dies_and_comes_back_is_used_again(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    with LocalAgent([dataset], options=[*NEVER_BUSY, "--workers", "2"]) as agent:

        def between(loader: Loader, step: int) -> None:
            if step == 3:
                agent.kill()
            if step == 6:
                agent.start()
                wait_until_proven(agent)
                wait_until_up(loader)

        digests, counts = run_epochs(
            dataset,
            pipeline,
            agents=[agent.address],
            token=agent.token,
            between=between,
            prefetch_steps=2,
            patience_s=20.0,
        )
        served = agent_statistics(agent)
    assert digests == expected
    assert counts.tensor > 0
    assert served["counts"]["finished"] > 0, "the restarted agent made samples"


def test_an_agent_that_is_frozen_does_not_stop_the_loop(
    dataset: Path, pipeline: Pipeline, expected: list[str]
) -> None:
    waits: list[float] = []
    with LocalAgent([dataset], options=[*NEVER_BUSY, "--workers", "2"]) as agent:
        last = time.monotonic()

        def between(_loader: Loader, step: int) -> None:
            nonlocal last
            waits.append(time.monotonic() - last)
            if step == 3:
                os.kill(agent.pid, signal.SIGSTOP)
            last = time.monotonic()

        try:
            digests, _ = run_epochs(
                dataset, pipeline, agents=[agent.address], token=agent.token, between=between
            )
        finally:
            os.kill(agent.pid, signal.SIGCONT)
    assert digests == expected
    assert max(waits[1:]) < 5.0
