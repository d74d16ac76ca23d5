"""``headrace replicate`` and ``headrace signal``, with and without a controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from safetensors.numpy import save

from headrace.cli.main import run
from headrace.cli.replications import Progress, show_all
from headrace.controller.local import LocalController
from headrace.trace.opening import open_trace
from headrace.wire.replication import (
    SIGNALS,
    CopyState,
    CopyView,
    ReplicationView,
    ReplicationWanted,
)
from waiting import eventually


def save_checkpoint(root: Path, step: int, nbytes: int = 20_000) -> Path:
    """Write a checkpoint as Hugging Face's Trainer does; return its folder."""
    folder = root / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(save({"w": np.zeros(nbytes, np.uint8)}))
    (folder / "config.json").write_text("{}")
    (folder / "trainer_state.json").write_text("{}")
    return folder


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    source = tmp_path / "source"
    source.mkdir()
    return source, tmp_path / "destination"


def test_once_copies_tells_and_ends(
    roots: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    assert run(["replicate", str(source), str(destination), "--once", "--json", "-"]) == 0
    told = capsys.readouterr()
    (copied,) = json.loads(told.out)["checkpoints"]
    assert (copied["checkpoint"], copied["state"]) == ("checkpoint-100", "published")
    assert "headrace: checkpoint-100 is there: " in told.err
    assert (destination / "checkpoint-100/trainer_state.json").exists()


def test_without_a_controller_copies_are_recorded_too(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    command = [sys.executable, "-m", "headrace", "replicate", str(source), str(destination)]
    environment = os.environ | {"HEADRACE_TRACE": str(tmp_path / "traces")}
    subprocess.run([*command, "--once"], env=environment, timeout=60, check=True)
    events = pa.Table.from_batches(open_trace([tmp_path / "traces" / "replicate"]).batches())
    assert set(events["name"].to_pylist()) == {"copy chunk", "publish copy"}
    assert pc.sum(events["bytes"]).as_py() >= 20_000


def test_once_ends_with_1_where_something_was_given_up(
    roots: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    save_checkpoint(destination, 100, nbytes=5)
    assert run(["replicate", str(source), str(destination), "--once"]) == 1
    told = capsys.readouterr()
    assert "given-up" in told.out
    assert "another checkpoint of this name" in told.out


def test_a_dry_run_writes_nothing(
    roots: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    save_checkpoint(source, 200)
    assert run(["replicate", str(source), str(destination), "--dry-run", "--json", "-"]) == 0
    states = [one["state"] for one in json.loads(capsys.readouterr().out)["checkpoints"]]
    assert states == ["skipped", "waiting"]
    assert not destination.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budget", "10KB"], "256KiB"),
        (["--eval-every", "often"], "nor a number of steps"),
        (["--end"], "give --controller"),
        (["--list"], "leave the roots out"),
        (["--budget", "1MB", "--controller", "http://127.0.0.1:1"], "--copy-budget"),
    ],
)
def test_a_wrong_call_is_refused(
    roots: tuple[Path, Path], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replicate", *map(str, roots), *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--once"], ["--dry-run"]])
def test_a_destination_in_the_source_is_refused_before_it_is_made(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replicate", str(tmp_path), str(tmp_path / "copies"), *options]) == 2
    assert "name another folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_another_checkpoint_is_replaced_only_if_told(
    roots: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    copy = save_checkpoint(destination, 100, nbytes=10) / "model.safetensors"
    call = ["replicate", str(source), str(destination), "--once"]
    assert run(call) == 1
    assert "--replace" in capsys.readouterr().out
    assert run([*call, "--replace"]) == 0
    assert copy.stat().st_size > 20_000


def test_roots_that_are_not_named_or_no_text_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replicate", str(tmp_path), "--once"]) == 2
    assert "name both roots" in capsys.readouterr().err
    strange = os.fsdecode(bytes(tmp_path) + b"/\xff")
    assert run(["replicate", strange, str(tmp_path), "--once"]) == 2
    assert "is no UTF-8 text" in capsys.readouterr().err


def test_what_a_controller_does_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    def copy(step: int, state: CopyState) -> CopyView:
        return CopyView(
            checkpoint=f"step-{step}",
            step=step,
            state=state,
            nbytes=16_000_000,
            here_bytes=4_000_000,
            bytes_per_s=2e6,
        )

    view = ReplicationView(
        name="evaluation",
        wanted=ReplicationWanted(source="/a", destination="/b"),
        since_at=0.0,
        listed=True,
        checkpoints=(copy(100, "published"), copy(200, "copying"), copy(300, "waiting")),
    )
    show_all([view, msgspec.structs.replace(view, name="other", down="cable cut")])
    first, second = (line.split() for line in capsys.readouterr().out.splitlines()[1:5:2])
    assert first == ["evaluation", "copies", "100", "1", "12.0", "MB", "2.00", "MB/s"]
    assert second[:2] == ["other", "waits"]


def test_a_source_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replicate", str(tmp_path / "no"), str(tmp_path), "--once"]) == 2
    assert "no directory at" in capsys.readouterr().err


def test_it_goes_on_until_ctrl_c_and_leaves_no_lock(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    call = [sys.executable, "-m", "headrace", "replicate", *map(str, roots)]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        eventually((destination / ".headrace/replicators").exists)
        save_checkpoint(source, 100)
        eventually((destination / "checkpoint-100/trainer_state.json").exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "checkpoint-100" in out
    assert "stopped; call it again" in err
    assert "Traceback" not in err
    assert list((destination / ".headrace/replicators").iterdir()) == []


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalController]:
    with LocalController(tmp_path / "journal.db") as running:
        monkeypatch.setenv("HEADRACE_CONTROLLER", running.address)
        monkeypatch.setenv("HEADRACE_TOKEN", running.token)
        yield running


def test_a_controller_copies_goes_on_after_a_restart_and_ends(
    roots: tuple[Path, Path],
    controller: LocalController,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, destination = roots
    call = [sys.executable, "-m", "headrace", "replicate", *map(str, roots), "--name", "eval"]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    save_checkpoint(source, 100)
    eventually((destination / "checkpoint-100/trainer_state.json").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert "the controller goes on with eval; the same with --end" in process.communicate()[1]
    assert run(["signal", "loss_spike", "--step", "150", "--source", str(source)]) == 0
    assert "heeded by eval" in capsys.readouterr().err
    assert run(["signal", "loss_spike", "--source", "/elsewhere"]) == 1
    os.kill(controller.ready.pid, signal.SIGKILL)
    with LocalController(tmp_path / "journal.db", token=controller.token) as again:
        monkeypatch.setenv("HEADRACE_CONTROLLER", again.address)
        save_checkpoint(source, 200)
        eventually((destination / "checkpoint-200/trainer_state.json").exists)
        assert run(["replicate", "--list"]) == 0
        shown = capsys.readouterr().out
        assert f"{source} → {destination}" in shown
        assert run(["replicate", "--list", "--json", "-"]) == 0
        (listed,) = json.loads(capsys.readouterr().out)["replications"]
        assert listed["name"] == "eval"
        assert run(["replicate", *map(str, roots), "--name", "eval", "--end"]) == 0
        assert "checkpoint-200" in capsys.readouterr().out
        assert run(["replicate", "--list"]) == 0
        assert capsys.readouterr().out == "no replications\n"
        assert run(["replicate", "--name", "eval", "--end"]) == 2
        assert "no replication 'eval' here" in capsys.readouterr().err


def test_a_signal_without_a_controller_is_left_at_the_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["signal", "quality_drop", "--step", "7", "--source", str(tmp_path)]) == 0
    (left,) = (tmp_path / SIGNALS).iterdir()
    assert json.loads(left.read_bytes())["kind"] == "quality_drop"
    assert "for whoever copies from there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("copying", "step-1: urgent, 50 % at 2.00 MB/s, 4.00 s left"),
        ("publishing", "step-1: urgent, is moved into place"),
    ],
)
def test_what_is_under_way_is_told(
    state: CopyState, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = CopyView(
        checkpoint="step-1",
        step=1,
        state=state,
        reason="",
        urgent="loss spike",
        nbytes=16_000_000,
        here_bytes=8_000_000,
        sent_bytes=8_000_000,
        bytes_per_s=2e6,
        eta_s=4.0,
        took_s=None,
    )
    wanted = ReplicationWanted(source="/a", destination="/b")
    view = ReplicationView(name="r", wanted=wanted, since_at=0.0, checkpoints=(copy,))
    Progress().tell(view, 0.0)
    assert capsys.readouterr().err == f"headrace: {said}\n"


def test_a_signal_needs_somebody_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["signal", "loss_spike"]) == 2
    assert "needs somebody to tell" in capsys.readouterr().err
