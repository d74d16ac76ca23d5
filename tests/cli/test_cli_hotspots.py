"""``headrace announce`` and ``leases``, with a controller and alone."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from estate_samples import estate
from rich.console import Console

from headrace.cli.hotspots import Progress, headline, show
from headrace.cli.main import run
from headrace.cli.topview import Screen, picture
from headrace.controller.hotspots.alone import leases_folder, opened_desk
from headrace.controller.local import LocalController
from headrace.devhdfs.cluster import Cluster
from headrace.storage.hdfs import HdfsStorage
from headrace.wire.hotspots import HotspotAsked, HotspotFile, HotspotView
from waiting import eventually

OWN = 2
RANKS = ("--world-size", "100000", "--file", "hot", "--eta", "60s")


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    with LocalController() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HEADRACE_CONTROLLER", raising=False)


@pytest.fixture
def known(controller: LocalController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTROLLER", controller.address)
    monkeypatch.setenv("HEADRACE_TOKEN", controller.token)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hot").write_bytes(bytes(1000))
    return tmp_path


@pytest.fixture
def hot_dir(hdfs_dir: str, hdfs: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.config_dir))
    with closing(HdfsStorage(hdfs_dir)) as storage:
        storage.write("hot", os.urandom(100_000))
    return hdfs_dir


def copies(url: str) -> int:
    with closing(HdfsStorage(url)) as storage:
        return storage.replication("hot")


@pytest.mark.usefixtures("known")
def test_an_announcement_is_listed_until_it_is_released(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["announce", str(folder), *RANKS, "--job", "llm", "--wait", "--json", "-"]) == 0
    said = capsys.readouterr()
    view = json.loads(said.out)
    assert (view["state"], view["world_size"]) == ("skipped", 100000)
    assert "keeps no journal" in said.err
    assert run(["leases"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert view["id"] in lines[1]
    assert "llm" in lines[1]
    assert "no agents to hold copies" in lines[2]
    assert max(len(line) for line in lines[:2]) <= 80
    assert run(["leases", "--release", view["id"]]) == 0
    assert capsys.readouterr().out == "no leases\n"
    for name in ("never", "with a space"):
        assert run(["leases", "--release", name]) == 2
        assert "it is over, or never was" in capsys.readouterr().err


def test_without_a_controller_nothing_is_held_where_no_copies_are_made(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the command would wait for the end of a lease that holds nothing."""
    begin_s = time.monotonic()
    assert run(["announce", str(folder), *RANKS, "--lease", "60s"]) == 0
    assert time.monotonic() - begin_s < 40
    assert "no agents to hold copies" in capsys.readouterr().out
    assert run(["leases"]) == 0
    assert capsys.readouterr().out == "no leases\n"


@pytest.mark.usefixtures("known")
def test_a_dry_run_announces_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["announce", str(folder), *RANKS, "--dry-run"]) == 0
    assert "no agents to hold copies" in capsys.readouterr().out
    assert run(["leases"]) == 0
    assert capsys.readouterr().out == "no leases\n"


@pytest.mark.usefixtures("known")
def test_a_checkpoint_that_cannot_be_read_is_a_bad_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wait in ([], ["--wait"]):
        assert run(["announce", str(tmp_path / "no"), "--world-size", "4", *wait]) == 1
        assert "no directory at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--world-size", "0"], "world-size"),
        (["--world-size", "4", "--hosts", "5"], "hosts=5"),
        (["--world-size", "4", "--dry-run"], "announce these (--file"),
        (["--world-size", "4", "--wait"], "leave it out, or give --controller"),
        (["--world-size", "4", "--lease", "90d"], "renew the lease"),
    ],
)
def test_calls_that_make_no_sense_are_refused(
    folder: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["announce", str(folder), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_a_controller_copies_are_held_until_the_command_is_ended(
    hot_dir: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "told.json"

    def end() -> None:
        eventually(target.exists)  # by then SIGTERM is taken for Ctrl-C
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    assert run(["announce", hot_dir, *RANKS, "--json", str(target)]) == 130
    (file,) = json.loads(target.read_text())["files"]
    assert (file["original"], file["wanted"], file["live"]) == (OWN, 3, 3)
    said = capsys.readouterr()
    assert "2 → 3" in said.out
    assert "held, 100 % ready" in said.err
    assert "all copies are given back" in said.err
    assert copies(hot_dir) == OWN
    assert not list((tmp_path / "state").rglob("*.db*"))


def test_what_a_killed_command_left_is_given_back_by_leases(
    hot_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "headrace", "announce", hot_dir, *RANKS]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        eventually(lambda: copies(hot_dir) == 3)
        assert run(["leases"]) == 0
        said = capsys.readouterr()
        assert f"process {killed.pid} holds copies, and runs" in said.err
        assert said.out == ""
        killed.kill()
    assert copies(hot_dir) == 3
    assert run(["leases"]) == 0
    said = capsys.readouterr()
    assert hot_dir[-10:] in said.out
    assert " gone " in said.out
    assert "all of it is given back" in said.err
    assert copies(hot_dir) == OWN
    assert run(["leases"]) == 0
    assert capsys.readouterr().out == "no leases\n"


def test_a_release_needs_a_controller(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["leases", "--release", "x"]) == 2
    assert "is for a controller's leases" in capsys.readouterr().err


@pytest.mark.usefixtures("known")
def test_ctrl_c_while_copies_are_waited_for_says_that_the_controller_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.cli.announce.Progress.tell", interrupt)
    assert run(["announce", str(folder), *RANKS, "--wait"]) == 130
    assert "the controller goes on with it; `headrace leases --release" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "path", "shown"),
    [
        ("hdfs:///ckpt/step-5/", "ckpt/step-5/a/b", "a/b"),
        ("hdfs://nn:8020/ckpt/step%205", "ckpt/step 5/a", "a"),
        ("/ckpt/step%205", "ckpt/step%205/a", "a"),
        ("file:/ckpt", "ckpt/a", "a"),
        ("/linked", "ckpt/step-5/a", "/ckpt/step-5/a"),
        ("hdfs:///", "a\x1b[2J", "/a�[2J"),
    ],
)
def test_files_are_shown_as_they_lie_in_the_folder(
    url: str, path: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = raising().files
    show(raising(url=url, files=(msgspec.structs.replace(file, path=path),)))
    assert capsys.readouterr().out.splitlines()[2].startswith(f"{shown} ")


def raising(**changed: object) -> HotspotView:
    """Return what a controller tells of copies that are being made."""
    file = HotspotFile(
        path="a",
        nbytes=1,
        hot_bytes=1,
        readers=9,
        wanted=9,
        original=3,
        live=5,
        state="raising",
        reason="9 readers",
    )
    told: dict[str, object] = {
        "id": "i",
        "job": "",
        "url": "hdfs://nn/ckpt/step-5",
        "world_size": 9,
        "hosts": None,
        "state": "raising",
        "reason": "1 of 1 hot files get more copies",
        "ready_share": 0.5,
        "ready_in_s": 3.0,
        "announced_at": 0.0,
        "hot_in_s": 1.0,
        "expires_in_s": 9.0,
        "kept": True,
        "files": (file,),
    }
    return HotspotView(**(told | changed))  # type: ignore[arg-type]


def test_of_a_path_that_is_too_long_the_end_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (file,) = raising().files
    path = "ckpt/step-5/mp_rank_00_model_states/part-00017-of-00064.pt"
    show(raising(files=(msgspec.structs.replace(file, path=path),)))
    (cell, *_) = capsys.readouterr().out.splitlines()[2].split()
    assert cell.startswith("…")
    assert cell.endswith("part-00017-of-00064.pt")
    assert len(cell) == 28


def test_rows_are_cut_off_where_a_terminal_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    show(raising())
    _, names, row, why = capsys.readouterr().out.splitlines()
    assert (names.split()[0], row.split()[0], why.split()[0]) == ("FILE", "/a", "↳")
    assert len(names) <= 50
    assert len(row) <= 50


def test_why_a_checkpoint_is_not_read_yet_is_told_when_it_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress()
    for reason in ("it is read", "it is read", "no answer from the NameNode"):
        progress.tell(raising(state="planning", ready_share=0.0, reason=reason))
    said = capsys.readouterr().err.splitlines()
    reasons = [one.rpartition(", ")[2] for one in said]
    assert reasons == ["it is read", "no answer from the NameNode"]


def test_a_store_that_is_away_is_told_and_nothing_was_given_back() -> None:
    away = ["announce", "hdfs://127.0.0.1:9/ckpt", *RANKS]
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", *away], stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        said = [waiting.stderr.readline(), waiting.stderr.readline()]
        waiting.terminate()
        said += waiting.stderr.readlines()
    assert "the connection was refused" in said[1]
    assert "given back" not in "".join(said)
    assert waiting.returncode == 130


def test_what_could_not_be_given_back_is_told_when_it_is(
    hot_dir: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leases_folder()
    folder.mkdir(parents=True)
    with closing(HdfsStorage(hot_dir)) as storage, opened_desk(folder / "1.db") as desk:
        name = desk.announce(HotspotAsked(url=hot_dir, world_size=100_000, files=("hot",))).id
        eventually(lambda: desk.view(name).state == "held")
        desk._book.end(name, "gone", "released")
        assert storage.replication("hot") == 3
    assert run(["leases"]) == 0
    said = capsys.readouterr()
    assert (said.out, "all of it is given back" in said.err) == ("", True)
    assert copies(hot_dir) == OWN


def test_progress_is_told_in_a_line() -> None:
    assert headline(raising()) == (
        "i hdfs://nn/ckpt/step-5: raising, 50 % ready, all in 3.00 s; "
        "1 of 1 hot files get more copies"
    )


@pytest.mark.parametrize("count", [0, 1, 9])
def test_top_shows_the_newest_hotspots_and_keeps_to_the_screen(count: int) -> None:
    views = tuple(raising(job=f"llm-{number}") for number in range(count))
    whole = msgspec.structs.replace(estate(40, 9), hotspots=views)
    console = Console(width=80, height=24, file=io.StringIO())
    console.print(picture(whole, Screen(width=80, height=24), controller="http://c:1"))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    shown = [line for line in lines if line.startswith("hot ")]
    assert len(shown) == min(count, 3)
    assert all("raising llm-" in line and "lease 9.00 s" in line for line in shown)
    assert len(lines) <= 24


def test_without_a_job_the_checkpoint_is_named() -> None:
    console = Console(width=80, height=24, file=io.StringIO())
    whole = msgspec.structs.replace(estate(1, 1), hotspots=(raising(),))
    console.print(picture(whole, Screen(width=80, height=24), controller="http://c:1"))
    assert "raising step-5" in console.file.getvalue()  # type: ignore[attr-defined]
