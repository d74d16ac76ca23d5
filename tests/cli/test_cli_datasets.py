from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from headrace.cli.main import run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    target = io.BytesIO()
    Image.new("RGB", (20, 10)).save(target, "JPEG")
    for name in ("ant", "bee"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "1.jpg").write_bytes(target.getvalue())
    (tmp_path / "data/t.jsonl").write_text('{"text": "a"}\nbroken\n')
    return tmp_path / "data"


def facts(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    assert run([*arguments, "--json", "-"]) == code
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_index_then_inspect_tell_the_same(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    indexed = facts(capsys, "index", str(data))
    assert (indexed["samples"], indexed["broken_samples"], indexed["files"]) == (4, 1, 3)
    inspected = facts(capsys, "inspect", str(data))["description"]
    assert isinstance(inspected, dict)
    assert inspected["digest"] == indexed["digest"]
    assert inspected["classes"] == {"ant": 1, "bee": 1}


def test_tables_go_to_standard_output(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", str(data)]) == 0
    assert run(["inspect", str(data)]) == 0
    shown = capsys.readouterr()
    for word in ("image", "jsonl", "ant", "bee", "not a line of JSON", "t.jsonl#1"):
        assert word in shown.out
    assert shown.err == "headrace: 1 sample broken; `headrace inspect` says why\n"


def test_files_in_trouble_for_one_reason_are_one_line(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        (data / f"{number}.tar").write_bytes(b"broken" * 200)
    for verb in ("index", "inspect"):
        assert run([verb, str(data)]) == 0
    shown = capsys.readouterr()
    for told in (shown.err, shown.out):
        assert told.count("0.tar and 2 more: only the 0 samples") == 1


def test_names_of_files_cannot_drive_the_terminal_nor_begin_a_line(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "odd\n\x1b[5m.jpg").write_bytes(b"")
    (data / "odd\n\x1b[5m.tar").write_bytes(b"broken" * 200)
    for verb in ("index", "inspect"):
        assert run([verb, str(data)]) == 0
    shown = capsys.readouterr()
    for told in (shown.err, shown.out):
        assert "odd\ufffd\ufffd[5m.tar: only the 0 samples" in told
        assert "\x1b[5m" not in told
    assert "odd\ufffd\ufffd[5m.jpg" in shown.out


def test_a_stale_index_exits_with_one(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["index", str(data)])
    (data / "ant/1.jpg").write_bytes(b"changed")
    capsys.readouterr()
    assert run(["inspect", str(data)]) == 1
    assert "changed: ant/1.jpg" in capsys.readouterr().out


def test_an_index_elsewhere_leaves_the_dataset_alone(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(data.rglob("*"))
    out = tmp_path / "made" / "here"
    place = facts(capsys, "index", str(data), "--out", str(out))["index"]
    assert place == f"{out}/.headrace-index"
    assert sorted(data.rglob("*")) == before
    assert facts(capsys, "inspect", str(data), "--index", str(out))["stale"] == {
        "changed": [],
        "gone": [],
        "new": [],
    }
    assert run(["inspect", str(data)]) == 2
    assert run(["explain", str(data), "--index", str(out)]) == 0


def test_a_missing_index_elsewhere_says_how_to_build_it_there(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bare").mkdir()
    assert run(["inspect", str(data), "--index", str(tmp_path / "bare")]) == 2
    assert f"`headrace index {data} --out {tmp_path}/bare`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "{data}/empty"], "no samples below"),
        (["index", "{data}x"], "did you mean {data}?"),
        (["index", "gopher://x/y"], "not supported"),
        (["index", "{data}", "--out", "{data}/ant/1.jpg"], "is a file; name another directory"),
        (["index", "{data}", "--workers", "0"], "must be at least 1"),
        (["inspect", "{data}"], "headrace index"),
        (["inspect", "{data}/ant/1.jpg"], "is a file"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_two(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (data / "empty").mkdir()
    assert run([argument.format(data=data) for argument in arguments]) == 2
    shown = capsys.readouterr()
    assert message.format(data=data) in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_an_index_adds_no_folder_that_programs_would_take_for_a_class(data: Path) -> None:
    assert run(["index", str(data)]) == 0
    assert sorted(one.name for one in data.iterdir() if one.is_dir()) == ["ant", "bee"]


def test_the_place_of_an_index_is_on_one_line_however_long(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = data.parent / ("x" * 100)
    assert run(["index", str(data), "--out", str(place)]) == 0
    assert str(place) in capsys.readouterr().out


def test_folders_of_splits_are_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "ant").rename(data / "train")
    (data / "bee").rename(data / "val")
    assert run(["index", str(data)]) == 0
    assert f"look like splits: take each as a dataset of its own, such as {data}/train" in (
        capsys.readouterr().err
    )


def test_no_figure_is_parted_from_its_unit_at_80_columns(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(["index", str(data)])
    capsys.readouterr()
    assert run(["inspect", str(data)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert any("0.0190 µs" in line for line in shown)
    assert [line for line in shown if line.split()[:1] in (["µs"], ["B"], ["ms"])] == []


def test_a_damaged_index_is_built_again(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["index", str(data)])
    (data / ".headrace-index").write_bytes(b"damaged")
    assert run(["index", str(data)]) == 0
    assert "scanning everything" in capsys.readouterr().err
    assert run(["inspect", str(data)]) == 0


@pytest.mark.parametrize("verb", ["index", "inspect"])
def test_help_shows_two_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    assert capsys.readouterr().out.count(f"headrace {verb} /") == 2
