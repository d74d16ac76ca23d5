from __future__ import annotations

import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from format_writers import write_mds
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import clip, picture, write_all
from PIL import Image

from headrace.core.errors import CorruptDataError, CorruptSampleError, StaleIndexError
from headrace.core.record import Record
from headrace.dataset import shards
from headrace.dataset.build import build_index
from headrace.dataset.describe import compare_files
from headrace.dataset.index import Index
from headrace.dataset.listing import list_dataset
from headrace.dataset.location import SampleLocation
from headrace.dataset.mdscolumns import Column, name_fields
from headrace.dataset.mdsvalues import mds_value
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.dataset.scan import ScanOptions
from headrace.storage.local import LocalStorage

COLUMNS = {"img": "jpeg", "caption": "str", "label": "int", "score": "float32", "id": "str"}
COMPRESSIONS = [None, "zstd", "gz", "br", "bz2", "snappy"]


def sample(number: int) -> dict[str, object]:
    return {
        "img": picture(8 + number, 8),
        "caption": f"tree №{number}" * number,
        "label": number - 2,
        "score": np.float32(number / 4),
        "id": f"id{number}",
    }


def expected(number: int) -> Record:
    one = sample(number)
    return {
        "image": one["img"],  # type: ignore[dict-item]
        "text": one["caption"],  # type: ignore[dict-item]
        "label": number - 2,
        "score": number / 4,
        "id": f"id{number}",
    }


def records(root: Path, **options: Any) -> list[Record]:
    storage = LocalStorage(root)
    index, reader = build_index(storage, options=ScanOptions(**options)), SampleReader(storage)
    assert index.problems == () or {p.severity for p in index.problems} == {"slow"}
    return [record(reader, index.location(n)) for n in range(len(index))]


def record(reader: SampleReader, location: SampleLocation) -> Record:
    return decode_fields(location, reader.read_raw(location))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_the_writer_wrote_comes_back(tmp_path: Path, compression: str | None) -> None:
    root = write_mds(
        tmp_path / "train",
        COLUMNS,
        map(sample, range(7)),
        compression=compression,
        size_limit=3000,
        hashes=["sha256", "xxh3_64"],
    )
    found = records(root)
    assert found == [expected(number) for number in range(7)]
    index = build_index(LocalStorage(root))
    assert len({file.path for file in index.files()}) > 1
    slow = [problem for problem in index.problems if problem.severity == "slow"]
    assert bool(slow) == bool(compression)
    assert all("compression=None" in problem.reason for problem in slow)
    location = index.location(3)
    assert (location.kind, location.width, location.label) == ("image", 11, None)
    assert location.length == sum(member.length for member in location.members)


def test_several_samples_are_read_at_once_and_streams_are_ranges(tmp_path: Path) -> None:
    rows = [{"mp4": clip(4 + n), "n": n} for n in range(4)]
    storage = LocalStorage(write_mds(tmp_path / "x", {"mp4": "bytes", "n": "uint16"}, rows))
    index, reader = build_index(storage), SampleReader(storage)
    places = [index.location(n) for n in (3, 1, 2)]
    assert reader.read_run(places) == [reader.read_raw(place) for place in places]
    opened = reader.open_record(index.location(2))
    assert opened["video"].read() == clip(6)  # type: ignore[union-attr]
    assert (opened["n"], index.location(2).frames) == (2, 6)


arrays = st.sampled_from(["uint8", "int16", "float16", "int32", "float32", "uint64", "float64"])
values = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**63), 2**63 - 1),
        "u8": st.integers(0, 255),
        "u64": st.integers(0, 2**64 - 1),
        "f": st.floats(allow_nan=False),
        "s": st.text(),
        "b": st.binary(),
        "si": st.integers(-(2**63), 2**63 - 1),
        "j": st.recursive(st.integers() | st.text(), lambda x: st.lists(x, max_size=3)),
        "shape": st.lists(st.integers(1, 5), min_size=1, max_size=3),
        "dtype": arrays,
    }
)
ENCODINGS = {
    "i": "int",
    "u8": "uint8",
    "u64": "uint64",
    "f": "float64",
    "s": "str",
    "b": "bytes",
    "si": "str_int",
    "j": "json",
    "a": "ndarray",
    "d": "ndarray:int16",
    "z": "ndarray:int8:2,3",
}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.lists(values, min_size=1, max_size=5))
def test_any_value_comes_back_as_it_was_written(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for row in rows:
        row["a"] = np.ones(row.pop("shape"), row.pop("dtype"))
        row["d"], row["z"] = np.arange(-1, 4, dtype=np.int16), np.full((2, 3), 7, np.int8)
    root = tmp_path_factory.mktemp("mds") / "x"
    found = records(write_mds(root, ENCODINGS, rows))
    for row, back in zip(rows, found, strict=True):
        row["text"], row["json"] = row.pop("s"), json.dumps(row.pop("j"))
        arrays = [(back.pop(name), row.pop(name)) for name in ("a", "d", "z")]
        assert back == row
        for one, other in arrays:
            np.testing.assert_array_equal(one, other, strict=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "CMYK"])
def test_raw_pixels_become_a_picture_that_decoders_read(tmp_path: Path, mode: str) -> None:
    image = Image.open(io.BytesIO(picture(9, 5))).convert(mode)
    root = write_mds(tmp_path / "x", {"x": "pil"}, [{"x": image}])
    (found,) = records(root)
    back = Image.open(io.BytesIO(found["image"]))  # type: ignore[arg-type]
    assert (back.mode, back.size, back.tobytes()) == (mode, (9, 5), image.tobytes())
    location = build_index(LocalStorage(root)).location(0)
    assert (location.width, location.height, location.broken) == (9, 5, None)


@pytest.mark.parametrize("encoding", ["list[png]", "list[jpeg]", "jpeg_array"])
def test_a_list_of_pictures_becomes_numbered_fields(tmp_path: Path, encoding: str) -> None:
    data = [picture(8 + n, 8, "PNG" if "png" in encoding else "JPEG") for n in range(3)]
    given: list[Any] = [Image.open(io.BytesIO(each)) for each in data]
    if encoding == "list[jpeg]":
        given = [image.convert("RGB") for image in given]
    row = {"x": data if encoding == "jpeg_array" else given}
    (found,) = records(write_mds(tmp_path / "x", {"x": encoding}, [row]))
    sizes = [Image.open(io.BytesIO(found[f"image.{n}"])).size for n in range(3)]  # type: ignore[arg-type]
    assert sizes == [(8, 8), (9, 8), (10, 8)]


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ({"a": "str", "b": "str"}, {"a": "text", "b": "b"}),
        ({"a": "str", "body": "str"}, {"a": "a", "body": "text"}),
        ({"a": "str", "caption": "str", "x": "jpeg"}, {"a": "a", "caption": "text", "x": "image"}),
        ({"depth": "png", "image": "jpeg"}, {"depth": "depth", "image": "image"}),
        ({"image": "str", "jpg": "jpeg"}, {"image": "image_", "jpg": "image"}),
        ({"cls": "int", "label": "uint8"}, {"cls": "cls", "label": "label"}),
        ({"label": "str"}, {"label": "text"}),
        ({"label": "float32"}, {"label": "label_"}),
        ({"mp4": "bytes", "audio": "bytes"}, {"mp4": "video", "audio": "audio"}),
        ({"tokens": "ndarray:int32", "p": "pkl", "q": "zip"}, {"tokens": "tokens"}),
        ({"p": "pkl"}, {}),
        ({"sample": "int", "x.0": "int"}, {"sample": "sample_", "x.0": "x.0_"}),
        (
            {"image": "int", "image_": "int", "jpg": "png"},
            {"image": "image__", "image_": "image_", "jpg": "image"},
        ),
    ],
)
def test_columns_become_fields_by_encoding_and_name(
    columns: dict[str, str], fields: dict[str, str]
) -> None:
    described = [Column(name, encoding, None) for name, encoding in columns.items()]
    assert name_fields(described, "body") == fields


def test_a_shard_of_pickles_says_that_it_is_not_read(tmp_path: Path) -> None:
    index = build_index(LocalStorage(write_mds(tmp_path / "x", {"p": "pkl"}, [{"p": 1}])))
    assert "p (pkl)" in index.problems[0].reason


def test_splits_and_streams_are_one_dataset(tmp_path: Path) -> None:
    for split in ("train/a", "train/b", "val"):
        write_mds(tmp_path / split, {"text": "str"}, [{"text": split}])
    assert [found["text"] for found in records(tmp_path)] == ["train/a", "train/b", "val"]


def test_shards_kept_with_their_compressed_copies_are_taken_once(tmp_path: Path) -> None:
    root = write_mds(tmp_path / "x", {"text": "str"}, [{"text": "a"}], compression="zstd")
    data = (root / "shard.00000.mds.zstd").read_bytes()
    (root / "shard.00000.mds").write_bytes(shards.decompressed("x.mds.zstd", data))
    assert records(root) == [{"text": "a"}]


def problems(root: Path) -> dict[str, str]:
    return {p.file: p.reason for p in build_index(LocalStorage(root)).problems}


def test_a_missing_shard_is_named_and_returns(tmp_path: Path) -> None:
    rows = [{"text": "x" * 100} for _ in range(6)]
    root = write_mds(tmp_path / "x", {"text": "str"}, rows, size_limit=400)
    shard = root / "shard.00001.mds"
    data = shard.read_bytes()
    shard.unlink()
    index = build_index(LocalStorage(root))
    assert [p.file for p in index.problems] == ["shard.00001.mds"]
    assert "index.json" in index.problems[0].reason
    shard.write_bytes(data)
    again = build_index(LocalStorage(root), previous=index)
    assert (len(again), again.problems) == (6, ())


def test_a_shard_that_stayed_while_its_manifest_changed_is_named(tmp_path: Path) -> None:
    root = write_mds(tmp_path / "x", {"text": "str"}, [{"text": "a"}])
    index = build_index(LocalStorage(root))
    write_mds(tmp_path / "y", {"text": "str"}, [{"text": "longer"}])
    (tmp_path / "y/index.json").rename(root / "index.json")
    again = build_index(LocalStorage(root), previous=index)
    assert [p.file for p in again.problems] == ["shard.00000.mds"]


def test_a_shard_of_another_size_or_digest_is_named(tmp_path: Path) -> None:
    rows = [{"text": "x" * 100} for _ in range(6)]
    root = write_mds(tmp_path / "x", {"text": "str"}, rows, size_limit=400, hashes=["xxh64"])
    first, second = root / "shard.00000.mds", root / "shard.00001.mds"
    first.write_bytes(first.read_bytes()[:-1] + b"y")
    second.write_bytes(second.read_bytes() + b"y")
    index = build_index(LocalStorage(root))
    found = {problem.file: problem.reason for problem in index.problems}
    assert "xxh64" in found["shard.00000.mds"]
    assert "bytes" in found["shard.00001.mds"]
    assert {file.path for file in index.files()} - found.keys() == {"shard.00002.mds"}
    assert {index.location(n).file for n in range(len(index))} == {"shard.00002.mds"}


def test_a_manifest_that_cannot_be_read_is_named_and_no_new_file(tmp_path: Path) -> None:
    root = write_mds(tmp_path / "x", {"text": "str"}, [{"text": "a"}])
    deep = f'{{"x": {"[" * 100_000}'
    for text in (deep, "{", '{"shards": 7}', '{"shards": [{"format": "mds", "raw_data": {}}]}'):
        (root / "index.json").write_text(text)
        index = build_index(LocalStorage(root))
        assert (len(index), [p.file for p in index.problems]) == (1, ["index.json"])
        assert not compare_files(index, list_dataset(LocalStorage(root)))
    write_all(tmp_path / "y", {"a.jpg": picture(8, 8), "index.json": b"[1, 2]"})
    other = LocalStorage(tmp_path / "y")
    index = build_index(other)
    assert (len(index), index.problems) == (1, ())
    assert not compare_files(index, list_dataset(other))


def test_a_name_that_leads_out_of_the_dataset_is_no_file(tmp_path: Path) -> None:
    write_all(tmp_path, {"secret.mds": b"secret"})
    root = write_mds(tmp_path / "x", {"text": "str"}, [{"text": "a"}])
    manifest = json.loads((root / "index.json").read_text())
    outside = {"basename": "../secret.mds", "bytes": 6, "hashes": {}}
    manifest["shards"].append({"format": "mds", "raw_data": outside, "zip_data": None})
    (root / "index.json").write_text(json.dumps(manifest))
    assert list(problems(root)) == ["../secret.mds"]


def cut_index(root: Path, data: bytes) -> Index:
    path = root / "shard.00000.mds"
    path.write_bytes(data)
    return build_index(LocalStorage(root))


def test_of_a_shard_cut_anywhere_the_complete_samples_are_kept(tmp_path: Path) -> None:
    root = write_mds(tmp_path / "x", {"text": "str", "n": "int"}, _texts(5))
    data = (root / "shard.00000.mds").read_bytes()
    whole = cut_index(root, data)
    ends = [whole.location(n).offset + 12 + len(_texts(5)[n]["text"]) for n in range(5)]
    for size in range(0, len(data), 7):
        index = cut_index(root, data[:size])
        assert len(index) == sum(end <= size for end in ends) and len(index.problems) == 1
        reader = SampleReader(LocalStorage(root))
        for n in range(len(index)):
            assert record(reader, index.location(n)) == _texts(5)[n]


def _texts(count: int) -> list[dict[str, Any]]:
    return [{"text": "abc" * n, "n": n} for n in range(count)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_lying_numbers_never_lead_out_of_the_shard(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "lying"
    if not root.exists():
        write_mds(root, {"text": "str", "img": "list[png]"}, [{"text": "a", "img": []}] * 3)
        (root / "index.json").unlink()
    original = root / "original"
    shard = root / "shard.00000.mds"
    if not original.exists():
        original.write_bytes(shard.read_bytes())
    damaged = bytearray(original.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) // 4 - 1)) * 4
        number = data.draw(st.sampled_from([0, 1, 2**16, 2**31, 2**32 - 1]) | st.integers(0, 300))
        struct.pack_into("<I", damaged, at, number)
    index = cut_index(root, bytes(damaged))
    reader = SampleReader(LocalStorage(root))
    for n in range(len(index)):
        location = index.location(n)
        assert all(m.offset + m.length <= len(damaged) for m in location.members)
        reader.read_raw(location)


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_a_damaged_compressed_shard_is_named(tmp_path: Path, compression: str) -> None:
    root = write_mds(tmp_path / "x", {"text": "str"}, _texts(50), compression=compression)
    (path,) = root.glob("shard.*")
    whole = path.read_bytes()
    for data in (whole[:-10], b"", b"x" * 100, whole[:20]):
        path.write_bytes(data)
        (root / "index.json").unlink(missing_ok=True)
        (problem,) = build_index(LocalStorage(root)).problems
        assert "damaged" in problem.reason or "no MDS shard" in problem.reason


@pytest.mark.parametrize("compression", ["zstd", "snappy"])
def test_a_shard_that_grows_without_end_is_given_up(
    tmp_path: Path, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "x" * 100_000}]
    root = write_mds(tmp_path / "x", {"text": "str"}, rows, compression=compression)
    monkeypatch.setattr(shards, "SHARD_BYTES", 90_000)
    monkeypatch.setattr(shards, "_PIECE_BYTES", 1000)
    assert "size_limit" in build_index(LocalStorage(root)).problems[0].reason


def test_a_compressed_shard_is_decompressed_once_and_noticed_when_it_changes(
    tmp_path: Path,
) -> None:
    root = write_mds(tmp_path / "x", {"text": "str"}, _texts(9), compression="zstd")
    storage = LocalStorage(root)
    index, reader = build_index(storage), SampleReader(storage)
    for n in range(9):
        assert record(reader, index.location(n))["text"] == "abc" * n
    assert reader.statistics().shards.misses == 1
    os.utime(root / "shard.00000.mds.zstd", ns=(1, 1))
    with pytest.raises(StaleIndexError):
        reader.read_raw(index.location(0))


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("int", b"123"),
        ("str", b"\xff"),
        ("str_int", b"1" * 5000),
        ("str_int", b"99999999999999999999"),
        ("ndarray", b""),
        ("ndarray", b"\x07\x04\x01"),
        ("ndarray", b"\x08\xff" + b"\xff" * 600),
        ("ndarray:int8:2,3", b"12345"),
        ("pil", b"\xff" * 8 + b"\x03\0\0\0RGB"),
        ("pil", b"\x01\0\0\0\x01\0\0\0\x01\0\0\0Px"),
    ],
)
def test_bytes_that_are_no_such_value_are_refused(encoding: str, data: bytes) -> None:
    with pytest.raises((ValueError, LookupError, CorruptDataError)):
        mds_value(encoding, data)


def test_a_value_that_is_none_makes_its_sample_corrupt(tmp_path: Path) -> None:
    root = write_mds(tmp_path / "x", {"text": "str"}, [{"text": b"\xff\xfe"}])
    storage = LocalStorage(root)
    location = build_index(storage).location(0)
    with pytest.raises(CorruptSampleError, match="its text cannot be read"):
        record(SampleReader(storage), location)
