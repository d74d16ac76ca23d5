"""The demo's child processes, for real: what they cost, and that they always end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headrace.core.errors import ProtocolError
from headrace.demo.children import SegmentFailedError, host_work, listen, trainers
from headrace.demo.hostwork import LARGEST_DEBT_S, owed_after
from headrace.demo.meter import busy_share
from headrace.demo.protocol import SegmentPlan
from waiting import eventually


def plan(root: Path) -> SegmentPlan:
    return SegmentPlan(
        mode="local",
        root=str(root),
        pipeline='{"version": 1, "ops": []}',
        batch_size=2,
        seed=1,
        first_step=0,
        warmup_steps=1,
        steps=2,
        step_s=0.0,
        first_step_s=0.0,
        workers=1,
        cpus=(),
    )


def wait_until_gone(pids: list[int]) -> None:
    eventually(lambda: not any(map(psutil.pid_exists, pids)))


def test_host_work_that_fell_behind_makes_up_for_a_second_at_most() -> None:
    assert owed_after(0.01, elapsed_s=0.02, share=0.5) == pytest.approx(0.02)
    assert owed_after(5.0, elapsed_s=60.0, share=0.5) == 0.5 * LARGEST_DEBT_S


def test_host_work_runs_while_its_block_does_and_no_longer() -> None:
    cpu = min(os.sched_getaffinity(0))
    with host_work(0.2, [cpu]) as pids:
        assert len(pids) == 2
        assert all(os.sched_getaffinity(pid) == {cpu} for pid in pids)
    wait_until_gone(pids)


def test_without_a_share_no_host_work_is_started() -> None:
    with host_work(0.0, [0]) as pids:
        assert pids == []


def test_host_work_ends_when_the_demo_is_killed() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.demo.hostwork", "0.01"], stdin=subprocess.PIPE
    )
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) == 0


def test_a_trainer_that_fails_says_why_and_with_which_code(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-dataset"
    with trainers([plan(missing)]) as running:
        with pytest.raises(SegmentFailedError, match="no-such-dataset") as failed:
            list(listen(running, meanwhile=lambda: None))
        pids = [trainer.pid for trainer in running]
    assert failed.value.exit_code == 2
    wait_until_gone(pids)


def test_a_trainer_that_dies_is_noticed(tmp_path: Path) -> None:
    with trainers([plan(tmp_path)]) as running:
        psutil.Process(running[0].pid).kill()
        with pytest.raises(ProtocolError, match="ended early"):
            list(listen(running, meanwhile=lambda: None))


def test_busy_share_of_no_time_is_nothing() -> None:
    assert busy_share((1.0, 2.0), (1.0, 2.0)) == 0.0
    assert busy_share((1.0, 2.0), (1.5, 4.0)) == pytest.approx(0.75)
