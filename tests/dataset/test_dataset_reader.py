from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, cast

import av
import pytest
from made_up_media import clip, json_lines, parquet, picture, shard, write_all

from headrace.core.errors import (
    ConfigError,
    CorruptSampleError,
    StaleIndexError,
    StorageError,
)
from headrace.dataset.build import build_index
from headrace.dataset.reader import SAMPLE_BYTES, ReaderLimits, SampleReader
from headrace.storage.local import LocalStorage
from headrace.storage.shaped import Shape, ShapedStorage

FILES = {
    "x.jpg": picture(8, 8),
    "x.tar": shard([("a.jpg", picture(8, 8))]),
    "x.jsonl": json_lines(["one", "two"]),
    "x.parquet": parquet({"text": ["one", "two"]}),
}


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3])


def grow(path: Path) -> None:
    path.write_bytes(b"xxxx" + path.read_bytes())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [touch, truncate, grow, Path.unlink])
def test_a_changed_file_is_never_read_at_a_stale_offset(tmp_path: Path, name: str, change) -> None:  # type: ignore[no-untyped-def]
    storage = LocalStorage(write_all(tmp_path, {name: FILES[name]}))
    location, reader = build_index(storage).location(0), SampleReader(storage)
    assert reader.read_raw(location)
    change(tmp_path / name)
    for read in (reader.read_raw, SampleReader(storage).read_raw, reader.open_record):
        with pytest.raises(StaleIndexError, match="headrace index"):
            read(location)


def test_a_local_file_is_opened_once_for_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.jpg": picture(8, 8)}))
    location, reader = build_index(storage).location(0), SampleReader(storage)
    opened = []

    def open_it(*given: Any) -> int:
        opened.append(given)
        return real(*given)

    real = os.open
    monkeypatch.setattr(os, "open", open_it)
    assert reader.read_raw(location)
    assert len(opened) == 1


def test_a_file_that_changes_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.jpg": picture(8, 8)}))
    location = build_index(storage).location(0)

    def pread(*given: int) -> bytes:
        touch(tmp_path / "x.jpg")
        return real(*given)

    real = os.pread
    monkeypatch.setattr(os, "pread", pread)
    for read in (
        SampleReader(storage).read_raw,
        SampleReader(ShapedStorage(storage, Shape())).read_raw,
    ):
        with pytest.raises(StaleIndexError, match="modified"):
            read(location)


def test_an_error_of_the_storage_is_not_called_staleness(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.jpg": picture(8, 8)}))
    location = build_index(storage).location(0)

    class Failing(LocalStorage):
        def read_described(self, path, ranges):  # type: ignore[no-untyped-def]
            raise StorageError("the device reported an error")

    with pytest.raises(StorageError, match="device"):
        SampleReader(Failing(tmp_path)).read_raw(location)


@pytest.mark.parametrize("name", ["x.mp4", "x.tar"])
def test_a_video_is_a_stream_that_a_decoder_can_seek_in(tmp_path: Path, name: str) -> None:
    data = clip(30)
    files = {"x.mp4": data, "x.tar": shard([("a.mp4", data), ("a.cls", b"5"), ("a.txt", b"hi")])}
    storage = LocalStorage(write_all(tmp_path, {name: files[name]}))
    location = build_index(storage).location(0)
    record = SampleReader(storage).open_record(location)
    stream = cast("BinaryIO", record.pop("video"))
    assert stream.read() == data
    stream.seek(0)
    with av.open(stream) as container:
        assert sum(1 for _ in container.decode(video=0)) == 30
    assert record == ({"label": 5, "text": "hi"} if name == "x.tar" else {})


def test_only_the_fields_asked_for_are_streams(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.jpg": picture(8, 8)}))
    location, reader = build_index(storage).location(0), SampleReader(storage)
    assert reader.open_record(location) == {"image": picture(8, 8)}
    stream = reader.open_record(location, frozenset({"image"}))["image"]
    assert cast("BinaryIO", stream).read() == picture(8, 8)


def test_a_stream_notices_when_its_file_changes(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.mp4": clip(30)}))
    location = build_index(storage).location(0)
    stream = cast("BinaryIO", SampleReader(storage).open_record(location)["video"])
    touch(tmp_path / "x.mp4")
    with pytest.raises(StaleIndexError, match="modified"):
        stream.read(10)


def test_decoders_pass_the_staleness_of_a_stream_on(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.mp4": clip(30)}))
    location = build_index(storage).location(0)
    stream = cast("BinaryIO", SampleReader(storage).open_record(location)["video"])
    touch(tmp_path / "x.mp4")
    with pytest.raises(StaleIndexError):
        av.open(stream)


def test_negative_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match="row_group_bytes"):
        ReaderLimits(row_group_bytes=-1)


RUNS = {
    "x.tar": shard([(f"{n}.{end}", picture(8, 8 + n)) for n in range(5) for end in ("jpg", "png")]),
    "x.jsonl": json_lines(["one", "two", "three"]),
    "x.parquet": parquet({"text": ["one", "two", "three"]}),
}


@pytest.mark.parametrize("name", RUNS)
def test_several_samples_read_at_once_are_what_each_is_by_itself(tmp_path: Path, name: str) -> None:
    storage = LocalStorage(write_all(tmp_path, {name: RUNS[name]}))
    index, reader = build_index(storage), SampleReader(storage)
    locations = [index.location(sample) for sample in range(len(index))]
    chosen = [location for number, location in enumerate(locations) if number != 1]
    assert reader.read_run(chosen) == [reader.read_raw(location) for location in chosen]
    touch(tmp_path / name)
    with pytest.raises(StaleIndexError, match="headrace index"):
        reader.read_run(chosen)


def test_samples_of_one_file_are_read_by_one_read(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.tar": RUNS["x.tar"]}))
    index = build_index(storage)
    spans = []

    class Watched(LocalStorage):
        def read(self, path, offset=0, length=None):  # type: ignore[no-untyped-def]
            spans.append((offset, length))
            return super().read(path, offset, length)

    SampleReader(Watched(tmp_path)).read_run([index.location(sample) for sample in (3, 1, 2)])
    assert len(spans) == 1


def test_a_sample_that_is_too_large_to_be_read_at_once_is_corrupt_but_for_clips(
    tmp_path: Path,
) -> None:
    names = ("x.jpg", "x.mp4")
    for name, data in zip(names, (picture(8, 8), clip(2)), strict=True):
        with (tmp_path / name).open("wb") as file:
            file.write(data)
            file.truncate(SAMPLE_BYTES + 1)
    storage = LocalStorage(tmp_path)
    index, reader = build_index(storage), SampleReader(storage)
    image, video = (index.location(number) for number in range(2))
    for read in (reader.read_raw, reader.open_record):
        with pytest.raises(CorruptSampleError, match=r"x\.jpg has 536870913 B to be read at once"):
            read(image)
    reader.open_record(video)["video"].close()  # type: ignore[union-attr]
