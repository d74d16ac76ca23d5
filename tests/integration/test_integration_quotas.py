"""Quotas that bind, with real agents and Loaders: they outlive a controller that is killed."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from headrace import Loader, Pipeline
from headrace.agent.local import LocalAgent
from headrace.controller.local import LocalController
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Agents, Estate, Ledger
from waiting import eventually

TOKEN = "q" * 20
OFFERED = 2e6
"""Far less than the file system gives, so that nothing but quotas can keep jobs to it [B/s]."""

SAMPLE_BYTES, BATCH = 20_000, 4
LOOK_S = 4.0
"""So long rates are measured; the controller is away for a little longer [s]."""

T = TypeVar("T", Agents, Estate, Ledger)


class Trainee:
    """A job that trains as fast as it gets batches, in a thread; each is a moment in a list."""

    def __init__(self, loader: Loader) -> None:
        self.moments: list[float] = []
        self.failure: BaseException | None = None
        self._loader = loader
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._train)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(30.0)
        assert not self._thread.is_alive()

    def bytes_between(self, begin_s: float, end_s: float) -> int:
        count = sum(begin_s <= moment < end_s for moment in self.moments)
        return count * BATCH * SAMPLE_BYTES

    def _train(self) -> None:
        try:
            while True:
                for _ in self._loader:
                    self.moments.append(time.monotonic())
                    if self._ending.wait(0.02):  # an accelerator's step
                        return
        except BaseException as error:
            self.failure = error
            raise


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quotas") / "shard"
    folder.mkdir()
    rng = np.random.default_rng(7)
    with tarfile.open(folder / "shard.tar", "w") as archive:
        for number in range(1000):
            member = tarfile.TarInfo(f"{number:05}.bin")
            member.size = SAMPLE_BYTES
            archive.addfile(member, io.BytesIO(rng.bytes(SAMPLE_BYTES)))
    return folder


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[LocalController]:
    with LocalController(tmp_path / "journal.db", token=TOKEN) as running:
        yield running


@pytest.fixture
def trainees(shard: Path, controller: LocalController) -> Iterator[list[Trainee]]:
    with ExitStack() as stack:
        given = ("--controller", controller.address, "--tier", f"hdd={OFFERED / 1e6:g}MB/s")
        options = (*given, "--workers", "1", "--cpu-threshold", "1")
        agent = stack.enter_context(LocalAgent([shard], token=TOKEN, options=options))
        running = []
        for seed in range(2):
            loader = stack.enter_context(
                Loader(
                    shard, pipeline=Pipeline([]), batch_size=BATCH, seed=seed, token=TOKEN,
                    agents=[agent.address], controller=controller.address, workers=1,
                )
            )  # fmt: skip
            running.append(Trainee(loader))
            stack.callback(running[-1].stop)
        yield running


def test_quotas_bind_and_hold_while_the_controller_is_dead_and_after_it_returned(
    controller: LocalController, trainees: list[Trainee]
) -> None:
    eventually(lambda: agree(controller), within_s=60.0)
    limited = watch()
    controller.kill()
    alone = watch()
    controller.start()
    returned = time.monotonic()
    eventually(lambda: agree(controller), within_s=60.0)
    again = watch()

    assert [trainee.failure for trainee in trainees] == [None, None]
    for begin_s, end_s in (limited, alone, again, (returned, again[0])):
        rate = sum(t.bytes_between(begin_s, end_s) for t in trainees) / (end_s - begin_s)
        assert 0.6 * OFFERED < rate < 1.3 * OFFERED
    loans = ask(controller, "ledger?open=true", Ledger).entries
    assert sum(loan.bytes_per_s for loan in loans) <= 0.15 * OFFERED * 1.01


def agree(controller: LocalController) -> bool:
    """Return whether the agent enforces what it was ordered, and that is what was granted."""
    estate = ask(controller, "estate", Estate)
    shares = [job.tiers["hdd"] for job in estate.jobs if "hdd" in job.tiers]
    if estate.controller.settling or len(shares) < 2:
        return False
    (agent,) = ask(controller, "agents", Agents).agents
    enforced = sum(share.enforced_bytes_per_s for share in shares)
    return (
        all(job.ordered == job.enforced for job in agent.jobs.values())
        and all(s.enforced_bytes_per_s <= 1.01 * s.granted_bytes_per_s for s in shares)
        and 0.8 * OFFERED < enforced <= 1.001 * OFFERED
    )


def ask(controller: LocalController, what: str, kind: type[T]) -> T:
    link = Connection(Endpoint(address=controller.address, token=TOKEN, service="controller"))
    try:
        return link.call("GET", f"/v1/{what}", kind)
    finally:
        link.close()


def watch() -> tuple[float, float]:
    """Let the jobs train for a while; return from when to when."""
    begin_s = time.monotonic()
    time.sleep(LOOK_S)
    return begin_s, time.monotonic()
