"""``headrace explain`` on a real folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headrace import ops
from headrace.cli.main import run
from headrace.dataset.build import build_index
from headrace.storage.local import LocalStorage
from headrace.transform.pipeline import Pipeline


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        pixels = rng.integers(0, 255, (300, 400, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg")
    storage = LocalStorage(str(folder))
    build_index(storage).save(storage)
    return folder


def test_it_says_where_each_op_of_the_usual_pipeline_runs(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(dataset)]) == 0
    told = capsys.readouterr()
    assert "image: 3 samples, estimated" in told.out
    assert "decode_image" in told.out
    assert told.err == ""


def test_json_goes_to_standard_output_alone(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(dataset), "--measure", "2", "--json", "-"]) == 0
    (image,) = json.loads(capsys.readouterr().out)["kinds"]
    assert image["kind"] == "image"
    assert image["samples"] == 3
    assert image["measured_on"] == 2
    assert image["cut"] == 5
    assert image["rows"][0]["place"] == "storage"
    assert {"position", "op", "place", "cpu_s", "bytes_in", "bytes_out"} <= set(image["rows"][0])


def test_a_pipeline_of_ones_own_is_explained(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(Pipeline([ops.DecodeImage(), ops.Resize(32)]).to_json())
    report = tmp_path / "report.json"
    assert run(["explain", str(dataset), "--pipeline", str(file), "--json", str(report)]) == 0
    assert [row["op"] for row in json.loads(report.read_text())["kinds"][0]["rows"]] == [
        "decode_image",
        "resize",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [('[{"op": "resise"}]', "did you mean 'resize'"), ("{", "not JSON")],
)
def test_a_wrong_pipeline_is_one_line_and_exit_code_2(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text)
    assert run(["explain", str(dataset), "--pipeline", str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_dataset_without_an_index_says_how_to_build_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(tmp_path)]) == 2
    assert "headrace index" in capsys.readouterr().err


def test_an_absent_pipeline_file_is_named(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(dataset), "--pipeline", "/nowhere/p.json"]) == 2
    assert "/nowhere/p.json" in capsys.readouterr().err
