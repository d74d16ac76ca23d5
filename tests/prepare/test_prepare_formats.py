"""Every format that headrace reads by itself: the same samples from any store, on either side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataset.format_writers import write_mds
from dataset.written_formats import OPTIONS, write_all_formats
from headrace import Pipeline, ops
from headrace.core.draws import SampleKey
from headrace.core.record import Record
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import SampleReader
from headrace.prepare.profiles import profiles_of
from headrace.prepare.sample import Preparer, finish_cut, finish_raw
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.transform.program import Program

PROGRAM = Program(
    Pipeline(
        [
            ops.DecodeImage(),
            ops.DecodeVideo(frames=2, sampling="random"),
            ops.RandomResizedCrop(8, fields=("image", "video")),
            ops.ToFloat(fields=("image", "video")),
        ]
    )
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all_formats(tmp_path_factory.mktemp("formats"))


def prepared(storage: Storage, index: Index) -> list[Record]:
    preparer = Preparer(PROGRAM, SampleReader(storage))
    return [
        preparer.prepare(index.location(n), key(n), stop=PROGRAM.sample_ops).record
        for n in range(len(index))
    ]


def key(sample: int) -> SampleKey:
    return SampleKey(seed=5, sample=sample, epoch=1)


def require_equal(ones: list[Record], others: list[Record]) -> None:
    for one, other in zip(ones, others, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert type(value) is type(other[name])
            np.testing.assert_array_equal(value, other[name])  # type: ignore[arg-type]


def test_samples_are_the_same_wherever_their_pipeline_is_cut(dataset: Path) -> None:
    storage = LocalStorage(dataset)
    index = build_index(storage, options=OPTIONS)
    whole = prepared(storage, index)
    preparer = Preparer(PROGRAM, SampleReader(storage))
    stop = PROGRAM.sample_ops
    for cut in PROGRAM.cuts:
        others = []
        for n in range(len(index)):
            half = preparer.prepare(index.location(n), key(n), stop=cut).record
            others.append(finish_cut(PROGRAM, half, key(n), cut=cut, stop=stop).record)
        require_equal(whole, others)
    raw = [
        finish_raw(PROGRAM, place, preparer.raw(place), key(n), stop=stop).record
        for n in range(len(index))
        for place in [index.location(n)]
    ]
    require_equal(whole, raw)
    assert {index.location(n).container for n in range(len(index))} == {
        "arrow",
        "file",
        "jsonl",
        "mds",
        "megatron",
        "parquet",
        "tar",
        "tfrecord",
    }


def test_a_remote_store_has_the_same_samples_under_the_same_digest(
    dataset: Path, hdfs_dir: str
) -> None:
    local, remote = LocalStorage(dataset), open_storage(hdfs_dir)
    for file in local.list(hidden=False):
        remote.write(file.path, local.read(file.path))
    here, there = (build_index(storage, options=OPTIONS) for storage in (local, remote))
    assert here.digest == there.digest
    assert [p.reason for p in here.problems] == [p.reason for p in there.problems]
    require_equal(prepared(local, here), prepared(remote, there))
    remote.close()


def test_formats_are_known_by_their_members_where_these_tell_them(tmp_path: Path) -> None:
    rows = [{"a": "x", "img": Image.new("RGB", (9, 9))}]
    index = build_index(LocalStorage(write_mds(tmp_path / "x", {"a": "str", "img": "png"}, rows)))
    (profile,) = profiles_of([index])
    assert (profile.kind, profile.codec, profile.width) == ("image", "png", 9)
