"""A dataset that nobody may write to is read by an index that lies in another folder."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from headrace import Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.cli.main import run
from headrace.core.errors import ConfigError, NotFoundError, RefusedError
from integration.agents import wait_until_proven

PIPELINE = Pipeline([ops.DecodeText()])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Return compressed texts, whose restart points lie beside the index."""
    root = tmp_path / "data"
    root.mkdir()
    lines = "".join(json.dumps({"text": f"line {number}"}) + "\n" for number in range(64))
    (root / "x.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return root


@pytest.fixture
def index(dataset: Path, tmp_path: Path) -> Path:
    place = tmp_path / "indexes" / "texts"
    assert run(["index", str(dataset), "--out", str(place)]) == 0
    return place


def texts_of(loader: Loader) -> list[str]:
    return [str(text) for batch in loader for text in batch["text"]]


def test_loaders_and_agents_read_by_an_index_in_another_folder(dataset: Path, index: Path) -> None:
    with Loader(dataset, index=index, pipeline=PIPELINE, batch_size=8, seed=1) as loader:
        expected = texts_of(loader)
    assert sorted(expected) == sorted(f"line {number}" for number in range(64))
    with LocalAgent([dataset, index], options=["--cpu-threshold", "1", "--workers", "1"]) as agent:
        options = {"agents": [agent.address], "token": agent.token, "patience_s": 20.0}
        with Loader(
            dataset, index={dataset: index}, pipeline=PIPELINE, batch_size=8, seed=1, **options
        ) as loader:
            wait_until_proven(agent)
            assert texts_of(loader) == expected
            while not loader.summary().counts.tensor:  # a busy host may do without its agent
                assert loader.epoch < 20
                assert sorted(texts_of(loader)) == sorted(expected)
        outside = shutil.copytree(index, index.parent / "outside")
        with pytest.raises(RefusedError, match="outside this agent's roots"):
            Loader(dataset, index=outside, batch_size=8, **options)
    assert [file.name for file in dataset.iterdir()] == ["x.jsonl.gz"]


@pytest.mark.parametrize(
    ("urls", "index", "message"),
    [
        (["a", "b"], "i", "one folder for 2 datasets"),
        (["a", "b"], {"c": "i"}, "names c, which is none of the datasets"),
        ("a", 7, "index=7 must be a folder"),
    ],
)
def test_an_index_of_no_dataset_is_refused(urls: object, index: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Loader(urls, index=index, batch_size=8)  # type: ignore[arg-type]


def test_a_folder_without_an_index_says_how_to_put_one_there(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=f"`headrace index {dataset} --out {tmp_path}`"):
        Loader(dataset, index=tmp_path, batch_size=8)
