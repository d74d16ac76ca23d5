"""``headrace checkpoint ls|show|plan`` as a user sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from headrace.cli import checkpoint as verb
from headrace.cli.main import run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two checkpoints of safetensors, the newer one cut off."""
    for step in (9, 10):
        folder = tmp_path / f"runs/step-{step}"
        folder.mkdir(parents=True)
        save_file(
            {
                "embedding": np.zeros((50, 8), dtype=np.float32),
                **{f"layers.{n}.w": np.zeros((4, 4), dtype=np.float16) for n in range(12)},
            },
            folder / "model.safetensors",
        )
    whole = (tmp_path / "runs/step-10/model.safetensors").read_bytes()
    (tmp_path / "runs/step-10/model.safetensors").write_bytes(whole[:-7])
    return tmp_path / "runs"


def facts(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run(["checkpoint", *arguments, "--json", "-"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["checkpoint", *arguments]) == code
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


def test_ls_tells_which_are_complete_and_what_the_others_lack(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = facts(capsys, "ls", str(runs))
    assert found["url"] == str(runs)
    older, newer = found["checkpoints"]
    assert (older["path"], older["layout"], older["step"]) == ("step-9", "safetensors", 9)
    assert older["complete"]
    assert older["bytes"] == (runs / "step-9/model.safetensors").stat().st_size
    assert 0 <= older["age_s"] < 600
    assert (newer["path"], newer["complete"]) == ("step-10", False)
    text = shown(capsys, "ls", str(runs))
    for word in (
        "step-9",
        "complete",
        "safetensors",
        newer["missing"][:40],
        "2 checkpoints, 1 complete",
    ):
        assert word in text


def test_ls_of_nothing_exits_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checkpoint", "ls", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"headrace: no checkpoints in {tmp_path}\n"
    assert facts(capsys, "ls", str(tmp_path), code=1)["checkpoints"] == []


def test_show_adds_up_files_and_tensors(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, "show", str(runs / "step-9"))
    assert [role["role"] for role in found["roles"]] == ["weights"]
    contents = found["contents"]
    assert [(one["dtype"], one["tensors"], one["elements"]) for one in contents["dtypes"]] == [
        ("float32", 1, 400),
        ("float16", 12, 192),
    ]
    assert contents["tensors"][0] == {
        "name": "embedding",
        "dtype": "float32",
        "shape": [50, 8],
        "shards": 1,
        "bytes": 1600,
    }
    assert len(contents["tensors"]) == 13
    text = shown(capsys, "show", str(runs / "step-9"))
    assert "50 × 8" in text
    assert "… and 3 more (--tensors lists all)" in text
    assert text.count("layers.") == 9
    assert shown(capsys, "show", str(runs / "step-9"), "--tensors").count("layers.") == 12


@pytest.mark.parametrize("text", ["step-9", "/elsewhere/step-9/\n"])
@pytest.mark.parametrize("above", ["", "file:"])
def test_a_pointer_is_followed(
    runs: Path, above: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "latest").write_text(text)
    url = f"{above}{runs}/latest"
    assert facts(capsys, "show", url)["path"] == "step-9"
    assert facts(capsys, "plan", url, "--world-size", "2")["path"] == "step-9"


def test_a_pointer_of_megatron_is_followed(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "step-9").rename(runs / "iter_0000009")
    (runs / "latest_checkpointed_iteration.txt").write_text("9")
    monkeypatch.chdir(runs)
    assert facts(capsys, "show", "latest_checkpointed_iteration.txt")["path"] == "iter_0000009"


@pytest.mark.parametrize("text", ["..", "../..", "step-8", "some notes", ""])
def test_a_file_that_names_nothing_beside_it_is_said_to_be_a_file(
    runs: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "latest").write_text(text)
    assert run(["checkpoint", "show", str(runs / "latest")]) == 2
    assert "latest is a file" in capsys.readouterr().err


def test_show_reads_a_snapshot_in_hugging_faces_cache(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = runs / "models--a--b/snapshots/0123abcd"
    snapshot.mkdir(parents=True)
    shutil.copytree(runs / "step-9", runs / "models--a--b/blobs")
    (snapshot / "model.safetensors").symlink_to("../../blobs/model.safetensors")
    assert len(facts(capsys, "show", str(snapshot))["contents"]["tensors"]) == 13


def test_show_of_an_incomplete_one_says_why_and_exits_with_one(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not complete: " in shown(capsys, "show", str(runs / "step-10"), code=1)
    assert not facts(capsys, "show", str(runs / "step-10"), code=1)["complete"]


def test_plan_tells_what_ranks_and_hosts_read(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (runs / "step-9/model.safetensors").stat().st_size
    call = ("plan", str(runs / "step-9"), "--world-size", "64", "--hosts", "8")
    found = facts(capsys, *call)
    assert found["plan"] == {
        "world_size": 64,
        "hosts": 8,
        "bytes_by_ranks": 64 * size,
        "bytes_once_per_host": 8 * size,
        "bytes_once": size,
        "slowest_rank": 0,
        "slowest_rank_bytes": size,
        "mean_rank_bytes": size,
        "ranges": [
            {
                "file": "model.safetensors",
                "offset": 0,
                "length": size,
                "readers": 64,
                "what": "weights",
            }
        ],
    }
    assert "process" in found["premise"]
    text = shown(capsys, *call)
    for word in ("64 ranks on 8 hosts", "64.00", "8.00", "rank 0 reads most", "premise: "):
        assert word in text


def test_one_of_something_is_told_as_one(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "plan", str(runs / "step-9"), "--world-size", "1")
    assert "1 rank on 1 host loads step-9 (" in text
    assert "13 tensors in 13 pieces, 0 other objects of" in shown(
        capsys, "show", str(runs / "step-9")
    )
    shutil.rmtree(runs / "step-10")
    assert "1 checkpoint, 1 complete, " in shown(capsys, "ls", str(runs))


def test_plan_without_hosts_takes_a_host_for_each_rank(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = facts(capsys, "plan", str(runs / "step-9"), "--world-size", "4")["plan"]
    assert planned["hosts"] == 4
    assert planned["bytes_once_per_host"] == planned["bytes_by_ranks"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "{runs}"], 2, "holds 2; name one, such as {runs}/step-9"),
        (["show", "{runs}/notes"], 2, "its one file is of none of the layouts"),
        (["show", "{runs}/notes/a\x1b[2J\nb"], 2, "notes/a�[2J\nb"),
        (["show", "{runs}/step"], 2, "no directory at {runs}/step"),
        (["plan", "{runs}/step-9"], 2, "Missing option '--world-size'"),
        (["plan", "{runs}/step-9", "--world-size", "0"], 2, "not in the range 1<=x<=10000000"),
        (["plan", "{runs}/step-9", "--world-size", "1000000000000"], 2, "1<=x<=10000000"),
        (["plan", "{runs}/step-9", "--world-size", "4", "--hosts", "5"], 2, "cannot be on 5 hosts"),
        (["plan", "{runs}/damaged", "--world-size", "4"], 1, "damaged/.metadata"),
        (["ls", "gopher://x/y"], 2, "not supported"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    runs: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    (runs / "notes").mkdir()
    (runs / "notes/today.txt").write_text("it went well")
    (runs / "damaged").mkdir()
    (runs / "damaged/__0_0.distcp").write_bytes(b"")
    (runs / "damaged/.metadata").write_bytes(b"\x80\x04")
    if arguments[0] == "show":
        shutil.rmtree(runs / "damaged")
    assert run(["checkpoint", *(one.format(runs=runs) for one in arguments)]) == code
    error = capsys.readouterr().err
    assert message.format(runs=runs) in error
    assert "Traceback" not in error


def test_a_name_with_brackets_is_printed_as_it_is(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = (runs / "step-9").rename(runs / "[red]a")
    assert "[red]a" in shown(capsys, "ls", str(runs))
    assert "[red]a" in shown(capsys, "show", str(folder))
    assert "[red]a" in shown(capsys, "plan", str(folder), "--world-size", "2")


def test_names_of_tensors_and_files_do_not_drive_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    save_file({"x\x1b[2J[red]": np.zeros(1)}, tmp_path / "a/[red]\x1b.safetensors")
    found = shown(capsys, "show", str(tmp_path / "a"))
    assert "x�[2J[red]" in found
    assert "\x1b" not in found + shown(capsys, "plan", str(tmp_path / "a"), "--world-size", "2")


def test_progress_is_shown_on_a_terminal_alone(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    assert run(["checkpoint", "ls", str(runs)]) == 0
    assert "looking at folders" in capsys.readouterr().err


def test_every_layout_has_its_premise() -> None:
    from headrace.checkpoint.find import LAYOUTS

    assert {layout.name for layout in LAYOUTS} == verb._PREMISES.keys()


def test_a_checkpoint_on_hdfs_is_shown_by_its_url(
    runs: Path, hdfs_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from headrace.storage.opening import open_storage

    storage = open_storage(hdfs_dir)
    storage.write(
        "a run/step-9/model.safetensors", (runs / "step-9/model.safetensors").read_bytes()
    )
    storage.close()
    found = facts(capsys, "ls", hdfs_dir)
    assert [one["path"] for one in found["checkpoints"]] == ["a run/step-9"]
    here = facts(capsys, "show", str(runs / "step-9"))
    assert facts(capsys, "show", f"{hdfs_dir}/a%20run/step-9")["contents"] == here["contents"]
    storage.write("a run/the latest", b"step-9")
    pointed = facts(capsys, "show", f"{hdfs_dir}/a%20run/the%20latest")
    assert pointed["contents"] == here["contents"]
