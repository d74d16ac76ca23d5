"""``headrace.signal``: never raises into training, and takes no time."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headrace
from headrace.wire.replication import SIGNALS


def test_it_is_left_at_the_root_of_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CHECKPOINTS", str(tmp_path))
    assert headrace.signal("loss_spike", step=12, job="run-7", wait_s=10.0)
    (left,) = (tmp_path / SIGNALS).iterdir()
    told = json.loads(left.read_bytes())
    assert (told["kind"], told["step"], told["job"]) == ("loss_spike", 12, "run-7")


def test_old_ones_are_removed_and_what_is_no_signal_stays(tmp_path: Path) -> None:
    folder = tmp_path / SIGNALS
    folder.mkdir(parents=True)
    (folder / f"{time.time() - 90_000:.3f}-0a0a0a0a.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    assert headrace.signal("loss_spike", source=str(tmp_path), wait_s=10.0)
    assert len(list(folder.iterdir())) == 2
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize(
    "where",
    [
        {"source": "/nowhere/at/all"},
        {"controller": "http://127.0.0.1:9"},
        {"controller": "not an address"},
        {},
    ],
)
def test_what_goes_wrong_is_logged_and_not_raised(
    where: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headrace.client"):
        assert not headrace.signal("loss_spike", step=1, wait_s=10.0, **where)  # type: ignore[arg-type]
    assert "nobody is told of loss_spike" in caplog.text


def test_a_store_that_hangs_costs_no_time(tmp_path: Path) -> None:
    folder = tmp_path / SIGNALS
    folder.mkdir(parents=True)

    def took_s() -> float:
        began = time.monotonic()
        headrace.signal("loss_spike", controller="http://10.255.255.1:9")  # nobody answers there
        return time.monotonic() - began

    assert any(took_s() < 1.0 for _ in range(3))  # the machine may be busy once


def test_a_process_that_ends_at_once_has_told(tmp_path: Path) -> None:
    code = f"""
import time, headrace
from headrace.client import signals

leave = signals._leave_at_root
signals._leave_at_root = lambda *given: (time.sleep(0.5), leave(*given))
headrace.signal("loss_not_finite", source={str(tmp_path)!r})
raise SystemExit(3)
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert ended.returncode == 3
    assert len(list((tmp_path / SIGNALS).iterdir())) == 1


def test_only_the_first_rank_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RANK", "3")
    assert not headrace.signal("loss_spike", source=str(tmp_path), wait_s=1.0)
    assert list(tmp_path.iterdir()) == []
