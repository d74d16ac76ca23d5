"""A storage host whose CPU is needed by others stops transforming, and takes it up again."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.client.batch import Batch
from integration.agents import agent_statistics

STEP_S = 0.05
ATTEMPTS = 5
"""Whatever else the machine does can only make an attempt slower; the quickest one counts."""

LIMIT_S = 60.0
"""An agent whose CPU others use does not transform before they have done [s]."""

AgentCounts = Counter[str]


def burn(cpu: int) -> None:
    """Use one CPU until killed."""
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


@contextmanager
def burning(cpu: int, processes: int) -> Iterator[None]:
    """Keep one CPU busy."""
    spawn = multiprocessing.get_context("spawn")
    burners = [spawn.Process(target=burn, args=(cpu,), daemon=True) for _ in range(processes)]
    for burner in burners:
        burner.start()
    deadline = time.monotonic() + 10
    while any(os.sched_getaffinity(burner.pid or 0) != {cpu} for burner in burners):
        assert time.monotonic() < deadline, "the burners did not start"
        time.sleep(0.01)
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.join()


class Loop:
    """A training loop that goes on and on, and what the agent did for it meanwhile."""

    def __init__(self, loader: Loader, agent: LocalAgent) -> None:
        self._batches = self._endless(loader)
        self._agent = agent
        self.longest_s = 0.0

    @staticmethod
    def _endless(loader: Loader) -> Iterator[Batch]:
        while True:
            yield from loader

    def until(self, reached: Callable[[AgentCounts], bool], *, limit_s: float = LIMIT_S) -> float:
        """Run steps until the agent's counts since now satisfy a condition; return how long."""
        begin, before = time.monotonic(), agent_counts(self._agent)
        while not reached(agent_counts(self._agent) - before):
            asked = time.monotonic()
            assert asked - begin < limit_s, agent_counts(self._agent) - before
            next(self._batches)
            self.longest_s = max(self.longest_s, time.monotonic() - asked)
            time.sleep(STEP_S)
        return time.monotonic() - begin


def busy(counts: AgentCounts) -> bool:
    """Whether the agent answered with raw bytes because others need the CPU."""
    return counts["raw-busy"] > 0


def transforms(counts: AgentCounts) -> bool:
    """Whether the agent finished a transform."""
    return counts["finished"] > 0


def agent_counts(agent: LocalAgent) -> AgentCounts:
    """Return what the agent did since its start."""
    return Counter(agent_statistics(agent)["counts"])


@pytest.mark.timeout(600)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_raw_answers_within_a_second_and_transforms_back_within_two(
    dataset: Path, pipeline: Pipeline
) -> None:
    trainer_cpu, agent_cpu = sorted(os.sched_getaffinity(0))[:2]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {trainer_cpu})
    settings = {"pipeline": pipeline, "batch_size": 4, "tail": "pad", "prefetch_steps": 2}
    # A second's worth of prepared samples would hide the raw answers: they are served first.
    options = ["--workers", "1", "--lead-seconds", "0.2"]
    try:
        with (
            LocalAgent([dataset], cpus=[agent_cpu], options=options) as agent,
            Loader(
                dataset, seed=3, agents=[agent.address], token=agent.token, **settings
            ) as loader,
        ):
            loop = Loop(loader, agent)
            raw_after_s, back_after_s = [math.inf], [math.inf]
            while not (min(raw_after_s) < 1.0 and min(back_after_s) < 2.0):
                assert len(raw_after_s) <= ATTEMPTS, (raw_after_s, back_after_s)
                loop.until(transforms)
                with burning(agent_cpu, 2):
                    raw_after_s.append(loop.until(busy))
                    loop.until(busy)
                back_after_s.append(loop.until(transforms))
    finally:
        os.sched_setaffinity(0, before)
    assert loop.longest_s < 15.0
