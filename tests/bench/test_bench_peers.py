"""The benchmark of loaders: its work, its processes and its report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.loader import write_pictures
from bench.peers import __main__ as peers
from bench.peers import serving
from bench.peers.contenders import CONTENDERS, Contender
from bench.peers.cputree import TreeCpu, tree_cpu
from bench.peers.driving import Loop, check_batch
from bench.peers.serving import described, taken
from bench.pictures import AREA, SIDE, random_box, write_crop
from headrace.core.errors import CorruptDataError, RemoteError

TINY = peers.Scale(pictures=4, flat_out=1, warm=1, steps=2, tries=False, repeats=1)
SPIN = "t = __import__('time')\nwhile t.process_time() < {}: pass\nprint(flush=True); t.sleep(60)"


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    (file,) = write_pictures(tmp_path_factory.mktemp("picture"), 1)
    return file.read_bytes()


def test_a_crop_is_normalised_and_the_same_for_the_same_draws(picture: bytes) -> None:
    first, again = np.empty((2, 3, SIDE, SIDE), np.float32)
    write_crop(picture, Random(1), first)
    write_crop(picture, Random(1), again)
    np.testing.assert_array_equal(first, again)
    assert -2.2 < first.min() < 0 < first.max() < 2.7


def test_crops_lie_within_the_picture_and_cover_the_share_asked_for() -> None:
    draw = Random(7)
    for _ in range(200):
        left, top, right, bottom = random_box(500, 375, draw)
        assert 0 <= left < right <= 500
        assert 0 <= top < bottom <= 375
        assert AREA[0] * 0.97 < (right - left) * (bottom - top) / (500 * 375) <= AREA[1]


def test_the_cpu_of_others_is_told_apart_from_that_of_the_process_they_are_children_of() -> None:
    tree = (
        "import subprocess, sys\n"
        f"other = subprocess.Popen([sys.executable, '-c', {SPIN.format(0.3)!r}], stdout=-1)\n"
        "other.stdout.readline(); print(other.pid, flush=True); input(); other.kill(); other.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", tree], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as trainer:
        assert trainer.stdout is not None
        other = int(trainer.stdout.readline())
        apart, together = tree_cpu(trainer.pid, [other]), tree_cpu(trainer.pid, [])
        trainer.communicate("\n")
    assert apart.other_s >= 0.3 > apart.trainer_s
    assert together.trainer_s >= 0.3
    assert together.other_s == 0
    assert tree_cpu(trainer.pid, [other]) == TreeCpu(0, 0)


def test_waits_are_those_for_batches_and_not_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def batches() -> Iterator[int]:
        for number in range(3):
            now[0] += 0.5 if number == 1 else 0.0
            yield number

    def step(step_s: float) -> None:
        now[0] += step_s

    monkeypatch.setattr(serving, "time", SimpleNamespace(perf_counter=lambda: now[0], sleep=step))
    assert taken(batches(), steps=3, step_s=2.0) == [0.0, 0.5, 0.0]
    assert now[0] == 6.5


@pytest.mark.parametrize(
    "batch",
    [
        np.zeros((32, 3, SIDE, SIDE), np.float32),
        np.ones((32, 3, SIDE, SIDE), np.float64),
        np.random.default_rng(0).normal(size=(31, 3, SIDE, SIDE)).astype(np.float32),
        np.random.default_rng(0).integers(0, 255, (32, SIDE, SIDE, 3)).astype(np.float32),
    ],
)
def test_batches_of_other_work_are_refused(batch: np.ndarray) -> None:
    with pytest.raises(CorruptDataError, match="normalised crops"):
        check_batch(described(batch))


def test_a_contender_takes_its_turns_and_one_that_cannot_start_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str, pins: object) -> Path:
        raise RemoteError(f"cannot install {name}")

    monkeypatch.setattr("bench.peers.contenders.environment", refuse)
    absent = Contender(title="-", module="no_such_module", tried=({},))
    told = peers.measure(
        {"spdl": CONTENDERS["spdl"], "dataloader": absent, "tf_data": CONTENDERS["tf_data"]}, TINY
    )
    (turn,) = told.turns["spdl"]
    assert turn.samples == 2 * 32
    assert turn.samples_per_cpu_s > 0
    assert "No module named bench.peers.no_such_module" in told.left_out["dataloader"]
    assert told.left_out["tf_data"] == "cannot install bench-peers/peers-tensorflow"


def test_each_peer_stands_against_the_headrace_that_works_at_the_same_place() -> None:
    def turn(trainer_s: float, wait_s: float) -> peers.Turn:
        return peers.Turn(Loop((wait_s,) * 10, TreeCpu(trainer_s, 0.5)), 100.0)

    turns = {
        "headrace": [turn(2.0, 0.004)],
        "headrace_agent": [turn(0.5, 0.0)],
        "dataloader": [turn(4.0, 0.008)],
        "tf_data_service": [turn(1.0, 0.002)],
    }
    chosen = {name: CONTENDERS[name].tried[0] for name in turns}
    told = peers.report(peers.Measured(0.03, chosen, turns, {"spdl": "gone"}), TINY).as_json()
    assert told["ratio"] == pytest.approx(
        {
            "vs_dataloader": 2.0,
            "vs_tf_data_service": 2.0,
            "p99_vs_dataloader": 0.5,
            "p99_vs_tf_data_service": 0.5,
            "agent_vs_dataloader": 8.0,
        }
    )
    assert told["settings"]["left_out"] == {"spdl": "gone"}
    assert set(told["headrace"]) == {"headrace", "headrace_agent"}
    assert told["baseline"]["dataloader"]["other_cpu_s_per_sample"]["median"] == 0.5 / 320
