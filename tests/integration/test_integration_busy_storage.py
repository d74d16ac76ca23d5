"""A storage host whose CPU is needed by others stops transforming, and takes it up again."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent

STEP_S = 0.05


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


class Watched:
    """Runs a loop and notes, by time, how samples came."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._batches = self._endless()
        self.longest_s = 0.0

    def _endless(self) -> Iterator[None]:
        while True:
            for _ in self._loader:
                yield

    def until(self, kind: str, *, limit_s: float) -> float:
        """Run steps until one brought samples of a kind only; return how long that took."""
        begin = time.monotonic()
        while True:
            before, asked = self._counts(), time.monotonic()
            next(self._batches)
            self.longest_s = max(self.longest_s, time.monotonic() - asked)
            time.sleep(STEP_S)
            tensor, raw = (now - then for now, then in zip(self._counts(), before, strict=True))
            took = time.monotonic() - begin
            if (tensor > 0 and raw == 0) if kind == "tensor" else (raw > 0):
                return took
            assert took < limit_s, f"no step brought {kind} samples within {limit_s} s"

    def _counts(self) -> tuple[int, int]:
        counts = self._loader.summary().counts
        return counts.tensor, sum(counts.raw.values())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_raw_answers_within_a_second_and_transforms_back_within_two(
    dataset: Path, pipeline: Pipeline
) -> None:
    trainer_cpu, agent_cpu = sorted(os.sched_getaffinity(0))[:2]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {trainer_cpu})
    try:
        with (
            LocalAgent([dataset], cpus=[agent_cpu], options=["--workers", "1"]) as agent,
            Loader(
                dataset,
                pipeline=pipeline,
                batch_size=4,
                seed=3,
                tail="pad",
                agents=[agent.address],
                token=agent.token,
                prefetch_steps=2,
            ) as loader,
        ):
            watched = Watched(loader)
            watched.until("tensor", limit_s=20)
            with burning(agent_cpu, 2):
                raw_after_s = watched.until("raw", limit_s=20)
                watched.until("raw", limit_s=20)
            back_after_s = watched.until("tensor", limit_s=20)
    finally:
        os.sched_setaffinity(0, before)
    assert raw_after_s < 1.0
    assert back_after_s < 2.0
    assert watched.longest_s < 5.0
