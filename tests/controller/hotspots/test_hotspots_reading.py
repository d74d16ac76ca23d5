"""What turns hot, told by a checkpoint's own headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from headrace.checkpoint.layout import Reading
from headrace.controller.hotspots import reading
from headrace.controller.hotspots.places import Place, place_of
from headrace.controller.hotspots.reading import read_hot_files
from headrace.core.errors import NotFoundError
from headrace.policy.hotspot.events import StoredFile
from headrace.storage.local import LocalStorage
from headrace.wire.hotspots import MOST_FILES, HotspotAsked


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"embedding": np.zeros((1000, 8), np.float32)}, folder / "model.safetensors")
    return folder


def test_files_that_all_ranks_read_are_hot(checkpoint: Path) -> None:
    (one,) = read_hot_files(HotspotAsked(url=str(checkpoint), world_size=64))
    size = (checkpoint / "model.safetensors").stat().st_size
    assert one.file == StoredFile("/", f"{checkpoint}/model.safetensors".lstrip("/"))
    assert (one.size, one.hot_bytes, one.readers) == (size, size, 64)
    assert one.ranges == ((0, size),)


def test_hosts_that_read_once_count_as_one_reader_each(checkpoint: Path) -> None:
    (one,) = read_hot_files(HotspotAsked(url=str(checkpoint), world_size=64, hosts=8))
    assert one.readers == 8
    assert read_hot_files(HotspotAsked(url=str(checkpoint), world_size=64, hosts=2)) == ()


def test_few_readers_make_nothing_hot(checkpoint: Path) -> None:
    assert read_hot_files(HotspotAsked(url=str(checkpoint), world_size=3)) == ()


def test_named_files_are_read_whole_by_all(checkpoint: Path) -> None:
    asked = HotspotAsked(url=str(checkpoint), world_size=10, files=("model.safetensors",))
    (one,) = read_hot_files(asked)
    assert (one.readers, one.hot_bytes, one.ranges) == (10, one.size, ())
    with pytest.raises(NotFoundError):
        read_hot_files(HotspotAsked(url=str(checkpoint), world_size=10, files=("no",)))


def test_what_is_no_checkpoint_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NotFoundError, match="no checkpoint at"):
        read_hot_files(HotspotAsked(url=str(tmp_path), world_size=10))


@pytest.mark.parametrize(
    ("ranks", "per_host", "hosts"),
    [
        (range(64), 8, 8),
        (range(4, 12), 8, 2),
        (range(0, 64, 8), 8, 8),
        (range(0, 64, 16), 8, 4),
        (range(0, 16, 2), 8, 2),
        (range(5, 6), 8, 1),
        (range(0), 8, 0),
    ],
)
def test_ranks_are_on_so_many_hosts(ranks: range, per_host: int, hosts: int) -> None:
    one = Reading(file="f", offset=0, length=1, ranks=ranks, what="")
    asked = HotspotAsked(url="u", world_size=64, hosts=64 // per_host)
    assert [len(found.ranks) for found in reading._by_host([one], asked)] == [hosts]


def test_many_ranges_are_joined_over_the_smallest_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_RANGES", 3)
    ranges = [(0, 10), (10, 5), (20, 5), (26, 4), (100, 1), (103, 1)]
    assert reading._joined(ranges) == ((0, 15), (20, 10), (100, 4))
    assert reading._joined([(7, 3)]) == ((7, 3),)


def test_a_checkpoint_of_very_many_files_announces_those_that_gain_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_FILES", 1)
    save_file({"a": np.zeros(10)}, tmp_path / "a.safetensors")
    save_file({"b": np.zeros(10_000)}, tmp_path / "b.safetensors")
    (one,) = read_hot_files(HotspotAsked(url=str(tmp_path), world_size=10))
    assert one.file.path.endswith("b.safetensors")
    assert MOST_FILES == 1000


def test_a_place_is_the_same_by_whatever_folder_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    whole, inner = (place_of(LocalStorage(tmp_path / one)) for one in ("a", "a/b"))
    assert whole.file("b/f") == inner.file("f")
    assert Place("hdfs://nn:8020/", "").file("f") == StoredFile("hdfs://nn:8020/", "f")
    assert Place("hdfs://nn:8020/", "x y%20/z").file("f").path == "x y%20/z/f"
