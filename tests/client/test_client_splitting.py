"""The cut moves while a job runs, by the link between a real agent and a loader."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from epochs import digests, loading
from PIL import Image
from slow_link import slow_link

from headrace import Batch, Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import CutMove
from headrace.client import machinery, splitting
from headrace.client.cutlog import CutLog
from headrace.client.splitting import Splitting, StepTally
from headrace.policy.cutting import CuttingLimits
from headrace.trace.importer import Notes
from headrace.trace.opening import open_trace
from headrace.transform.program import Program
from headrace.transform.split import KindProfile, plan_split
from headrace.wire.frames import FrameHeader
from headrace.wire.stream import Wait

BATCH, STEPS = 6, 4
SIDE = 128
"""A crop has 49 kB, the file of a picture a few; decoding it takes a while."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("smooth")
    rng = np.random.default_rng(8)
    for number in range(BATCH * STEPS):
        coarse = rng.integers(0, 256, (12, 16, 3), np.uint8)
        Image.fromarray(coarse).resize((800, 600)).save(root / f"{number:02d}.webp", quality=40)
    return root


@pytest.fixture(scope="module")
def growing() -> Pipeline:
    return Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(SIDE), ops.ToFloat()])


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at measurements ten times a second, and move by them at once."""
    limits = CuttingLimits(hold_s=0.1, least_samples=4)
    monkeypatch.setattr(splitting, "ROUND_S", 0.1)
    monkeypatch.setattr(machinery, "Splitting", functools.partial(Splitting, limits=limits))


def rounds(loader: Loader, cut: int) -> Iterator[Batch]:
    """Yield epochs until the agent's frames come at a cut; it has time to make them."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        for batch in loader:
            yield batch
            time.sleep(0.1)
        running = loader.explain()[0].running
        if running is not None and running.cut == cut and running.measured:
            return
    raise AssertionError(f"the cut is not at {cut}: {loader.explain()[0].running}")


def test_a_time_in_which_several_connections_wait_counts_once(growing: Pipeline) -> None:
    program = Program(growing)
    plan = plan_split(program, [KindProfile(kind="image", nbytes=9e3, width=800, height=600)])
    split = Splitting(
        program,
        plan,
        {"image": 2},
        fixed=frozenset(),
        decides=True,
        members=tuple,
        tell=lambda _: None,
        log=CutLog(None, "job", rank=0),
    )
    tally, header = StepTally(), FrameHeader(kind="tensor", cut=2, cpu_s=1e-3)
    for sample in range(16):
        tally.came((sample, 0), "image", header, 49152)
    for begin, end in ((1.0, 2.0), (0.5, 1.5), (0.0, 1.0), (5.0, 6.0)):
        split.waited(Wait(begin, end, 1_500_000))
    split.add(tally, now=10.0)
    running = split.running("image", 2)
    assert running is not None
    assert running.bandwidth == pytest.approx(6e6 / 3)
    assert running.storage_s == pytest.approx(1e-3)
    assert (running.measured, running.wire_bytes) == (True, 49152)


@pytest.fixture(scope="module")
def agent(pictures: Path) -> Iterator[LocalAgent]:
    with LocalAgent([pictures], options=("--workers", "1", "--cpu-threshold", "1")) as agent:
        yield agent


def alone(pictures: Path, growing: Pipeline, *, epochs: int) -> list[str]:
    with loading(pictures, pipeline=growing, batch_size=BATCH) as loader:
        return [digest for _ in range(epochs) for digest in digests(loader)]


def moves_in(trace: Path) -> tuple[CutMove, ...]:
    """Return what an analysis tells of moved cuts."""
    analyser = Analyser()
    for batch in open_trace([trace]).batches():
        analyser.add(batch)
    (job,) = analyser.result(format_name="headrace", notes=Notes()).jobs
    return job.cuts


@pytest.mark.usefixtures("eager")
def test_over_a_thin_link_files_come_instead_of_crops_and_no_batch_differs(
    pictures: Path, growing: Pipeline, agent: LocalAgent, tmp_path: Path
) -> None:
    options = {"pipeline": growing, "batch_size": BATCH, "patience_s": 30, "token": agent.token}
    options["trace"] = tmp_path
    with (
        slow_link(agent.address, bytes_per_s=1e6) as link,
        loading(pictures, agents=[link.address], require_agents=True, **options) as loader,
    ):
        (planned,) = loader.explain()
        assert (planned.cut, planned.running) == (2, None)
        assert planned.places() == ("storage", "storage", "trainer")
        seen = digests(rounds(loader, 0))
        (thin,) = loader.explain()
    assert thin.running is not None
    assert thin.running.wire_bytes < SIDE * SIDE * 3
    assert 2e5 < (thin.running.bandwidth or 0) < 5e6
    assert thin.places() == ("trainer", "trainer", "trainer")
    assert seen == alone(pictures, growing, epochs=len(seen) // STEPS)
    (move,) = moves_in(tmp_path)
    assert (move.samples, move.ops_before, move.ops) == ("image", 2, 0)
    assert 2e5 < (move.link_bytes_per_s or 0) < 5e6
    assert min(move.sample_bytes or 0, move.trainer_s or 0) > 0


@pytest.mark.usefixtures("eager")
def test_over_a_thick_link_crops_come_and_what_they_took_is_measured(
    pictures: Path, growing: Pipeline, agent: LocalAgent
) -> None:
    options = {"pipeline": growing, "batch_size": BATCH, "patience_s": 30, "token": agent.token}
    with loading(pictures, agents=[agent.address], run="thick", **options) as loader:
        seen = digests(rounds(loader, 2))
        (thick,) = loader.explain()
    assert thick.running is not None
    assert thick.running.wire_bytes == SIDE * SIDE * 3
    assert thick.running.storage_s > 0
    assert thick.places() == ("storage", "storage", "trainer")
    assert seen == alone(pictures, growing, epochs=len(seen) // STEPS)


def test_a_loader_without_agents_moves_nothing(pictures: Path, growing: Pipeline) -> None:
    with loading(pictures, pipeline=growing, batch_size=BATCH) as loader:
        list(loader)
        assert loader.explain()[0].running is None
