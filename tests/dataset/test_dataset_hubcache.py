"""Datasets as ``huggingface_hub`` keeps them: snapshots whose files are links to blobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_media import parquet, picture, write_all

from headrace.core.errors import AccessError
from headrace.dataset.build import build_index
from headrace.dataset.reader import SampleReader
from headrace.storage.opening import open_storage

FILES = {
    "README.md": b"# a dataset",
    "data/train-00000-of-00001.parquet": parquet({"image": [picture(8, 8)], "text": ["one"]}),
    "pictures/cat/1.jpg": picture(16, 8),
}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    hub = tmp_path / "datasets--a--b"
    write_all(hub, {"blobs/none": b"", "refs/main": b"0123abcd"})
    root = hub / "snapshots/0123abcd"
    for number, (name, data) in enumerate(FILES.items()):
        write_all(hub, {f"blobs/{number:064x}": data})
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to("../" * (name.count("/") + 2) + f"blobs/{number:064x}")
    return root


def test_a_snapshot_is_read_through_its_links(snapshot: Path, tmp_path: Path) -> None:
    plain = build_index(open_storage(str(write_all(tmp_path / "plain", FILES))))
    storage = open_storage(str(snapshot))
    index, reader = build_index(storage), SampleReader(storage)
    assert index.digest == plain.digest
    assert not index.problems
    read = [reader.read_raw(index.location(number)) for number in range(2)]
    assert [raw["image"] for raw in read] == [picture(8, 8), picture(16, 8)]


def test_part_of_a_snapshot_is_a_dataset_too(snapshot: Path) -> None:
    assert build_index(open_storage(f"file:{snapshot}/pictures")).classes == ("cat",)


@pytest.mark.parametrize("target", ["../../../secret", "../../refs/main", "../../blobs/out"])
def test_a_link_that_leaves_the_blobs_is_broken_and_not_read(snapshot: Path, target: str) -> None:
    hub = snapshot.parents[1]
    write_all(hub.parent, {"secret": picture(8, 8)})
    (hub / "blobs/out").symlink_to("../../secret")
    (snapshot / "x.jpg").symlink_to(target)
    storage = open_storage(str(snapshot))
    index = build_index(storage)
    broken = {index.location(n).file: index.location(n).broken for n in range(len(index))}
    assert "links to" in str(broken["x.jpg"])
    with pytest.raises(AccessError, match="links to"):
        storage.read("x.jpg")
