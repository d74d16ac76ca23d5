"""``headrace assess`` on real files, and how well it foretells a real loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headrace import ops
from headrace.assess.picking import STRATA, picks
from headrace.cli.bandwidths import Bandwidth
from headrace.cli.main import run
from headrace.dataset.build import build_index
from headrace.storage.local import LocalStorage
from headrace.transform.pipeline import Pipeline

CALL = ("--step-time", "20ms", "--batch-size", "8", "--seconds", "0.5", "--workers", "0,1")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assessed")
    rng = np.random.default_rng(0)
    for number in range(40):
        side = 64 + 16 * number
        coarse = rng.integers(0, 256, (side // 8, side // 8, 3), np.uint8)
        Image.fromarray(coarse).resize((side, side)).save(folder / f"{number:02d}.jpg")
    whole = (folder / "39.jpg").read_bytes()
    (folder / "broken.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "notes.jsonl").write_text('{"text": "a caption"}\n' * 3)
    return folder


@pytest.fixture(scope="module")
def pipeline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pipeline") / "train.py"
    file.write_text(
        "from headrace import Pipeline, ops\n"
        "pipeline = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(32), ops.ToFloat()])\n"
    )
    return file


def test_it_answers_first_and_names_ops_needs_and_what_is_broken(
    dataset: Path, pipeline_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    call = ["assess", str(dataset), "--pipeline", str(pipeline_file), *CALL]
    assert run([*call, "--html", str(page), "--json", str(figures)]) == 0
    told = capsys.readouterr().out
    found = json.loads(figures.read_text())["outlook"]
    assert " ".join(told.split()).startswith(found["verdict"])
    for text in ("1 local worker", "decode_image", "Gbit/s", "broken.jpg", "could not be used"):
        assert text in told
    kinds = {kind["kind"]: kind for kind in found["kinds"]}
    assert kinds["image"]["samples"] == 41
    assert found["verdict"] in page.read_text().replace("&#x27;", "'")


def test_figures_go_to_standard_output_alone(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(Pipeline([ops.DecodeImage(), ops.Resize(16)]).to_json())
    assert run(["assess", str(dataset), "--pipeline", str(file), *CALL, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["workers"] == [0, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "has no pipeline = "),
        ("raise ValueError('oh')", "fails: ValueError: oh"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_makes_no_pipeline_is_refused(
    dataset: Path, tmp_path: Path, text: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    if text is not None:
        file.write_text(text)
    assert run(["assess", str(dataset), "--pipeline", str(file), *CALL]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--workers", "two", "0,2,4,8"),
        ("--bandwidth", "fast", "10Gbit"),
        ("--html", "-", "name a file"),
        ("--seconds", "nan", "not finite"),
        ("--step-time", "0", "above 0"),
        ("--batch-size", "1000000000", "[1, 131072]"),
        ("--html", "/nowhere/a.html", "no directory"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(
    dataset: Path,
    pipeline_file: Path,
    option: str,
    value: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ["assess", str(dataset), "--pipeline", str(pipeline_file), *CALL, option, value]
    assert run(call) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "has no index yet" not in said, "before anything is read"


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("10Gbit", 1.25e9), ("100 Mbit/s", 12.5e6), ("500MB", 5e8), ("1.25e9", 1.25e9), ("8bit", 1)],
)
def test_bandwidths_are_read_as_people_write_them(text: str, bytes_per_s: float) -> None:
    assert Bandwidth().convert(text, None, None) == pytest.approx(bytes_per_s)


def test_explain_takes_the_same_python_file(
    dataset: Path, pipeline_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_index(LocalStorage(str(dataset))).save(str(dataset))
    assert run(["explain", str(dataset), "--pipeline", str(pipeline_file)]) == 0
    assert "random_resized_crop" in capsys.readouterr().out


def test_samples_are_picked_of_all_kinds_and_sizes(dataset: Path) -> None:
    index = build_index(LocalStorage(str(dataset)))
    first = list(picks(index))
    assert {one.kind for one in first[:2]} == {"image", "text"}
    assert len({one.row for one in first}) == len(first) == len(index)
    pictures = [one.row for one in first if one.kind == "image"][:STRATA]
    lengths = np.sort(index.lengths[index.kinds == index.kinds[pictures[0]]])
    found = np.searchsorted(lengths, index.lengths[pictures]) * STRATA // len(lengths)
    assert len(set(found.tolist())) >= STRATA - 3
