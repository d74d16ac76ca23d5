"""An epoch over files that break loaders: it ends, names each, and is the same with an agent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from awkward_corpus import (
    BROKEN,
    GOOD_CLIPS,
    GOOD_PICTURES,
    JPEG,
    PROGRESSIVE,
    write_containers,
    write_media,
    write_odd_entries,
)
from epochs import digest, loading
from PIL import Image, ImageOps

from headrace import Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.core.draws import SampleKey
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import SampleReader
from headrace.prepare.sample import Preparer
from headrace.storage.local import LocalStorage
from headrace.transform.program import Program
from integration.agents import agent_statistics, wait_until_proven
from real_media import MEDIA, needs_media

ARENA_BYTES = 64 << 20
OPTIONS = (
    *("--workers", "2", "--worker-memory", "512MiB", "--memory", "64MiB"),
    *("--task-seconds", "20", "--cpu-threshold", "1"),
)

LARGEST_PROCESS_BYTES = 512 << 20
"""Of an agent's processes: 160 MB are libraries, the rest is what one sample takes."""

PIPELINE = Pipeline(
    [
        ops.DecodeImage(orientation="apply"),
        ops.DecodeVideo(4, max_pixels=1_000_000),
        ops.DecodeAudio(rate=8000, seconds=1.0),
        ops.Resize((16, 16)),
    ]
)

ELSEWHERE = {
    "outside.jpg": "outside",
    "nowhere.jpg": "gone",
    "sparse.jpg": "to be read at once",
    "lines.jsonl#2": "JSON",
    "lines.jsonl#3": "JSON",
}
"""Samples that no pipeline can do anything for, and what is said of each."""

SHOWN = {"uneven.mp4": (1, 4, 6, 9), "before.mp4": (4, 6, 8, 10)}
"""Frames on display in the middles of a clip's quarters; those of all others are 1, 4, 7, 10."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("awkward")


@pytest.fixture(scope="module")
def agent(folder: Path) -> Iterator[LocalAgent]:
    with LocalAgent([folder], options=OPTIONS) as agent:
        yield agent


@pytest.fixture(scope="module")
def corpus(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = folder / "made"
    root.mkdir()
    write_media(root)
    write_containers(root)
    write_odd_entries(root, tmp_path_factory.mktemp("elsewhere") / "outside.jpg")
    storage = LocalStorage(root)
    build_index(storage).save(storage)
    return root


@pytest.fixture(scope="module")
def index(corpus: Path) -> Index:
    return Index.load(LocalStorage(corpus))


def epoch_of(root: Path, agent: LocalAgent | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the digests of an epoch's batches, and why samples were replaced."""
    options = asking(agent) if agent else {}
    options = {"pipeline": PIPELINE, "batch_size": 8, "tail": "short", **options}
    with loading(root, **options) as loader:
        if agent:
            wait_until_proven(agent)
        batches = [digest(batch) for batch in loader]
        return batches, {item.key: item.reason for item in loader.summary().replaced}


@pytest.fixture(scope="module")
def alone(corpus: Path) -> tuple[list[str], dict[str, str]]:
    return epoch_of(corpus)


def test_an_epoch_ends_and_names_each_broken_sample_with_its_reason(
    alone: tuple[list[str], dict[str, str]],
) -> None:
    expected = {name: reason for name, (_, reason) in BROKEN.items()} | ELSEWHERE
    _, found = alone
    assert {*found} == {*expected}
    for name, reason in expected.items():
        assert re.search(reason, found[name]), (name, found[name])
        assert " at 0x" not in found[name], "a reason says the same wherever it is given"


def test_an_agent_makes_the_same_of_them_within_its_memory_and_loses_no_worker(
    corpus: Path, alone: tuple[list[str], dict[str, str]], agent: LocalAgent
) -> None:
    batches, found = epoch_of(corpus, agent)
    assert batches == alone[0]
    assert {*found} == {*alone[1]}
    served, peaks = agent_statistics(agent), peaks_of(agent)
    assert served["counts"]["finished"] > 0
    assert served["worker_restarts"] == served["counts"].get("crashed", 0) == 0
    assert served["memory_used_bytes"] <= served["memory_budget_bytes"] == ARENA_BYTES
    assert len(peaks) == 3
    assert max(peaks) < LARGEST_PROCESS_BYTES


def asking(agent: LocalAgent) -> dict[str, Any]:
    return {
        "agents": [agent.address],
        "token": agent.token,
        "patience_s": 20.0,
        "require_agents": True,
    }


def peaks_of(agent: LocalAgent) -> list[int]:
    """Return the most memory that an agent and its workers ever held, each, by the kernel."""
    pids = [agent.pid, *(child.pid for child in psutil.Process(agent.pid).children())]
    told = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return [int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1)) << 10 for text in told]  # type: ignore[union-attr]


def made(corpus: Path, index: Index, name: str, op: ops.Op) -> np.ndarray:
    """Return what an op makes of one file of the corpus."""
    location = next(at for at in map(index.location, range(len(index))) if at.key == name)
    assert location.broken is None
    preparer = Preparer(Program(Pipeline([op])), SampleReader(LocalStorage(corpus)))
    record = preparer.prepare(location, SampleKey(0, 0, 0), stop=1).record
    pixels = record[location.kind]
    assert isinstance(pixels, np.ndarray)
    return pixels


@pytest.mark.parametrize("name", [*GOOD_PICTURES])
def test_pictures_that_can_be_decoded_are_what_pillow_makes_of_them(
    corpus: Path, index: Index, name: str
) -> None:
    pixels = made(corpus, index, name, ops.DecodeImage(orientation="apply"))
    image = Image.open(corpus / name)
    if image.mode == "I;16":
        expected = np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, -1)
    else:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert np.array_equal(pixels, expected)


@pytest.mark.parametrize("name", [*GOOD_CLIPS])
def test_of_clips_that_can_be_decoded_the_right_frames_are_taken(
    corpus: Path, index: Index, name: str
) -> None:
    pixels = made(corpus, index, name, ops.DecodeVideo(4, orientation="apply"))
    assert pixels.shape[1:3] == ((64, 48) if name == "turned.mp4" else (48, 64))
    shown = SHOWN.get(name, (1, 4, 7, 10))
    assert [round(float(level) / 16) for level in pixels.mean((1, 2, 3))] == [*shown]


def test_files_of_samples_are_read_up_to_their_damage_which_is_told(index: Index) -> None:
    keys = {index.location(number).key for number in range(len(index))}
    assert {f"climbing.tar#{key}" for key in ("/etc/a", "../../b", "./c")} <= keys
    assert "cut.tar#d" in keys
    assert {f"members.jsonl.gz#{line}" for line in range(4)} <= keys
    told = {problem.file for problem in index.problems}
    assert told == {"cut.tar", "footer.parquet", r"\udcff\udcfe.jpg"}
    assert not any(key.startswith("loop/") for key in keys)


def test_files_that_changed_or_vanished_after_indexing_are_told_alike_with_an_agent(
    folder: Path, agent: LocalAgent
) -> None:
    root = folder / "moved"
    root.mkdir()
    for number in range(8):
        (root / f"{number}.jpg").write_bytes(JPEG)
    storage = LocalStorage(root)
    build_index(storage).save(storage)
    (root / "2.jpg").write_bytes(PROGRESSIVE)
    (root / "5.jpg").unlink()
    alone, served = epoch_of(root), epoch_of(root, agent)
    assert served[0] == alone[0]
    for _, found in (alone, served):
        assert {*found} == {"2.jpg", "5.jpg"}
        assert "since it was indexed" in found["2.jpg"]
        assert "is gone since it was indexed" in found["5.jpg"]


@needs_media
def test_an_epoch_of_real_awkward_media_replaces_those_that_do_not_decode(
    folder: Path, agent: LocalAgent
) -> None:
    real = folder / "real"
    real.mkdir()
    for file in MEDIA.iterdir():
        (real / file.name).write_bytes(file.read_bytes())
    alone, served = epoch_of(real), epoch_of(real, agent)
    assert agent_statistics(agent)["worker_restarts"] == 0
    assert {*alone[1]} == {
        "broken_data_stream.png",
        "decompression_bomb.gif",
        "truncated_image.png",
        "truncated_jpeg.jpg",
        "ultrahdr.jpg",
    }
    assert served[0] == alone[0]
    assert {*served[1]} == {*alone[1]}
    assert Index.load(LocalStorage(real)).meta.ignored == {"ico": 1, "md": 1}, "all others are read"
