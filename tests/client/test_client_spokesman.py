"""Ranks as processes of one host: one report for all, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fake_controller import FakeController

from headrace.wire.control import HealthAnswer

WORLD = 3
PROGRAM = Path(__file__).with_name("rank_process.py")


class Rank:
    """A running rank, and what it said last."""

    def __init__(self, dataset: Path, controller: FakeController, rank: int) -> None:
        command = [sys.executable, str(PROGRAM), str(dataset), controller.address]
        self.process = subprocess.Popen(
            [*command, str(rank), str(WORLD)],
            stdout=subprocess.PIPE,
            env=os.environ | {"LOCAL_WORLD_SIZE": str(WORLD)},
        )
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def speaks(self) -> bool:
        return self.said.startswith("speaks True")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(10)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.said = line.decode().strip()


@contextmanager
def running(dataset: Path, controller: FakeController) -> Iterator[list[Rank]]:
    ranks: list[Rank] = []
    try:
        ranks += [Rank(dataset, controller, rank) for rank in range(WORLD)]
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()


def test_a_killed_spokesman_is_succeeded_and_its_run_goes_on(dataset: Path) -> None:
    controller = FakeController()
    controller.answer = HealthAnswer(score=80.0, level="healthy", mode="none", quotas={"hdd": 6e8})
    try:
        with running(dataset, controller) as ranks:
            controller.wait_for(lambda: _latest_ranks(controller) == WORLD, 60)
            controller.wait_for(lambda: sum(rank.speaks for rank in ranks) == 1)
            controller.wait_for(lambda: all(rank.said.endswith(" 200000000.0") for rank in ranks))
            (spokesman,) = [rank for rank in ranks if rank.speaks]
            spokesman.kill()
            spokesman.said, before = "", len(controller.reports)
            controller.wait_for(lambda: len(controller.reports) > before + 2, 30)
            controller.wait_for(lambda: _latest_ranks(controller) == WORLD - 1, 30)
            controller.wait_for(lambda: sum(rank.speaks for rank in ranks) == 1)
    finally:
        controller.close()
    iterations = [report.iteration for report in controller.reports]
    assert iterations == sorted(set(iterations)), "each iteration is reported once"
    assert len({report.boot for report in controller.reports}) == 1
    assert len({report.host for report in controller.reports}) == 1
    assert {told.hosts for told in controller.announced} == {1}


def _latest_ranks(controller: FakeController) -> int:
    return controller.reports[-1].ranks if controller.reports else 0
