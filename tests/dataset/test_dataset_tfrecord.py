from __future__ import annotations

import gzip
import io
import os
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from format_writers import records_module, write_records
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import clip, picture

from headrace.core.errors import CorruptSampleError, StaleIndexError
from headrace.core.record import Record
from headrace.dataset import recordframe, tfrecord
from headrace.dataset.build import build_index
from headrace.dataset.example import FIELDS, example_features, example_members
from headrace.dataset.index import Index
from headrace.dataset.media import container_of
from headrace.dataset.protobuf import Walk, varints
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.dataset.scan import ScanOptions
from headrace.dataset.values import value
from headrace.storage.local import LocalStorage


def example(number: int) -> dict[str, tuple[Any, str]]:
    return {
        "image/encoded": (picture(8 + number, 8), "byte"),
        "image/class/label": (number - 1, "int"),
        "image/class/text": (f"tree №{number}".encode(), "byte"),
        "image/size": ([8 + number, 8], "int"),
        "weights": ([0.5, float(number)], "float"),
        "weight": (float(number), "float"),
    }


def records(root: Path, **options: Any) -> list[Record]:
    storage = LocalStorage(root)
    index, reader = build_index(storage, options=ScanOptions(**options)), SampleReader(storage)
    assert index.problems == ()
    places = [index.location(n) for n in range(len(index))]
    return [decode_fields(place, reader.read_raw(place)) for place in places]


def compress(path: Path) -> Path:
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target


@pytest.mark.parametrize("compressed", [False, True])
def test_what_the_writer_wrote_comes_back(tmp_path: Path, compressed: bool) -> None:
    path = write_records(tmp_path / "train.tfrecord", map(example, range(5)))
    if compressed:
        compress(path)
    for number, record in enumerate(records(tmp_path)):
        size, weights = record.pop("image/size"), record.pop("weights")
        assert record == {
            "image": picture(8 + number, 8),
            "label": number - 1,
            "text": f"tree №{number}",
            "weight": number,
        }
        np.testing.assert_array_equal(size, np.array([8 + number, 8]), strict=True)  # type: ignore[arg-type]
        np.testing.assert_array_equal(
            weights,  # type: ignore[arg-type]
            np.array([0.5, number], np.float32),
            strict=True,
        )
    location = build_index(LocalStorage(tmp_path)).location(3)
    assert (location.kind, location.width, location.broken) == ("image", 11, None)


def test_clips_are_probed_and_read_whole(tmp_path: Path) -> None:
    write_records(tmp_path / "x.tfrecords", [{"video": (clip(n + 5), "byte")} for n in range(2)])
    compress(write_records(tmp_path / "y.tfrecord", [{"mp4": (clip(8), "byte")}]))
    storage = LocalStorage(tmp_path)
    index, reader = build_index(storage), SampleReader(storage)
    places = [index.location(n) for n in range(3)]
    assert [place.frames for place in places] == [5, 6, 8]
    assert [reader.open_record(place)["video"] for place in places] == [clip(5), clip(6), clip(8)]
    assert reader.read_run(places[:2]) == [{"video": clip(5)}, {"video": clip(6)}]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
features = st.one_of(
    st.tuples(st.lists(st.binary(max_size=300), max_size=3), st.just("byte")),
    st.tuples(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9), st.just("int")),
    st.tuples(st.lists(st.floats(width=32, allow_nan=False), max_size=9), st.just("float")),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows=st.lists(st.dictionaries(names, features, min_size=1, max_size=5), max_size=3))
def test_any_feature_comes_back_as_it_was_written(rows: list[dict[str, Any]]) -> None:
    serialize = records_module().TFRecordWriter.serialize_tf_example
    for row in rows:
        data = serialize(row)
        found = example_features(io.BytesIO(data), 0, len(data))
        assert found.keys() == {name for name, (values, _) in row.items() if values}
        members = list(example_members(found, "text"))
        assert len({member.field for member in members}) == len(members)
        for name, (encoding, places) in found.items():
            values, kind = row[name]
            parts = [data[begin:end] for begin, end in places]
            if kind == "byte":
                assert (encoding, parts) == ("bytes", values)
                continue
            value = decoded(encoding, parts[0])
            back = value.tolist() if isinstance(value, np.ndarray) else [value]
            assert back == values


def decoded(encoding: str, data: bytes) -> Any:
    return value("tfrecord", "x", encoding, data)


def test_numbers_that_were_not_packed_are_read_too() -> None:
    assert decoded("int64_list", b"\x08\x05\x08\xac\x02").tolist() == [5, 300]
    assert decoded("int64_list", b"\x0a\x02\x01\x02\x08\x03").tolist() == [1, 2, 3]
    assert decoded("float_list", b"\x0d" + struct.pack("<f", 1.5)) == 1.5


@pytest.mark.parametrize("data", [b"\x80", b"\x80" * 10 + b"\x01", b"\x01\xff"])
def test_numbers_that_are_cut_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="number"):
        varints(data)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (
            {"image": "byte", "image/encoded": "byte"},
            {"image": "image", "image/encoded": "image/encoded"},
        ),
        ({"jpeg": "byte", "label": "int"}, {"jpeg": "image", "label": "label"}),
        ({"audio/encoded": "byte", "label": "byte"}, {"audio/encoded": "audio", "label": "label_"}),
        ({"caption": "byte", "body": "byte"}, {"caption": "caption", "body": "text"}),
        ({"text": "int", "image": "float"}, {"text": "text_", "image": "image_"}),
        ({"record": "byte", "x/label": "int"}, {"record": "record_", "x/label": "label"}),
    ],
)
def test_features_become_fields_by_type_and_name(
    given: dict[str, str], fields: dict[str, str]
) -> None:
    encodings = {"byte": "bytes", "int": "int64_list", "float": "float_list"}
    found = {
        name: (encodings[kind], [(at, at + 1)]) for at, (name, kind) in enumerate(given.items())
    }
    chosen = {m.offset: m.field for m in example_members(found, "body")}
    assert {name: chosen[at] for at, name in enumerate(given)} == fields


def test_several_values_of_bytes_are_numbered(tmp_path: Path) -> None:
    pictures = [picture(8, 8), picture(9, 8)]
    write_records(tmp_path / "x.tfrecord", [{"image": (pictures, "byte")}])
    assert records(tmp_path) == [{"image.0": pictures[0], "image.1": pictures[1]}]
    assert build_index(LocalStorage(tmp_path)).location(0).kind == "image"


def framed(*payloads: bytes) -> bytes:
    masked = records_module().TFRecordWriter.masked_crc
    parts = []
    for payload in payloads:
        length = struct.pack("<Q", len(payload))
        parts += [length, masked(length), payload, masked(payload)]
    return b"".join(parts)


def indexed(root: Path, data: bytes, name: str = "x.tfrecord") -> tuple[Index, SampleReader]:
    root.mkdir(exist_ok=True)
    (root / name).write_bytes(data)
    return build_index(LocalStorage(root)), SampleReader(LocalStorage(root))


def test_what_is_no_example_is_a_record(tmp_path: Path) -> None:
    writer = records_module().TFRecordWriter
    sequence = writer.serialize_tf_sequence_example({"a": (1, "int")}, {"b": ([[1], [2]], "int")})
    payloads = [b"plain text", sequence, b"", b"\x0a\x7fshort"]
    index, reader = indexed(tmp_path, framed(*payloads))
    assert index.problems == ()
    found = [reader.read_raw(index.location(n)) for n in range(len(index))]
    assert found == [{"record": payload} for payload in payloads]
    assert index.location(0).kind == "other"


def test_features_without_values_are_no_fields(tmp_path: Path) -> None:
    write_records(
        tmp_path / "x.tfrecord", [{"text": (b"a", "byte"), "z": ([], "int"), "y": ([], "byte")}]
    )
    assert records(tmp_path) == [{"text": "a"}]


def test_a_record_of_more_fields_than_are_walked_through_is_a_record(tmp_path: Path) -> None:
    serialize = records_module().TFRecordWriter.serialize_tf_example
    many = serialize({"x": ([b""] * FIELDS, "byte")})
    index, reader = indexed(tmp_path, framed(b"\x0a\x00" * (FIELDS + 1), many))
    found = [reader.read_raw(index.location(n)) for n in range(2)]
    assert found == [{"record": b"\x0a\x00" * (FIELDS + 1)}, {"record": many}]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_damaged_record_is_corrupt_when_it_is_read(tmp_path: Path, compressed: bool) -> None:
    data = bytearray(write_records(tmp_path / "w", map(example, range(3))).read_bytes())
    index, _ = indexed(tmp_path / "good", bytes(data))
    member = next(m for m in index.location(1).members if m.field == "text")
    data[member.offset] ^= 1
    packed = gzip.compress(bytes(data)) if compressed else bytes(data)
    index, reader = indexed(
        tmp_path / "bad", packed, "x.tfrecord.gz" if compressed else "x.tfrecord"
    )
    assert len(index) == 3 and index.problems == ()
    assert reader.read_raw(index.location(2))
    with pytest.raises(CorruptSampleError, match="checksum"):
        reader.read_raw(index.location(1))


@pytest.mark.parametrize("compressed", [False, True])
def test_of_a_file_cut_anywhere_the_whole_records_are_kept(
    tmp_path: Path, compressed: bool
) -> None:
    payloads = [b"a" * 40, b"", b"b" * 25]
    data, ends = framed(*payloads), [56, 72, 113]
    for size in range(1, len(data), 5 if compressed else 1):
        cut = gzip.compress(data[:size]) if compressed else data[:size]
        index, reader = indexed(tmp_path, cut, "x.tfrecord.gz" if compressed else "x.tfrecord")
        whole = sum(end <= size for end in ends)
        found = [reader.read_raw(index.location(n))["record"] for n in range(len(index))]
        assert found == payloads[:whole]
        damaged = [p for p in index.problems if p.severity == "broken"]
        assert bool(damaged) == (size not in ends)
        assert all("ends inside" in problem.reason for problem in damaged)


def test_a_gzip_file_cut_anywhere_is_named(tmp_path: Path) -> None:
    data = gzip.compress(framed(*(os.urandom(50) for _ in range(4))))
    for size in range(1, len(data), 11):
        index, _ = indexed(tmp_path, data[:size], "x.tfrecord.gz")
        assert len(index.problems) == 1


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_lying_lengths_inside_a_record_never_lead_out_of_it(data: st.DataObject) -> None:
    payload = bytearray(
        records_module().TFRecordWriter.serialize_tf_example(
            {"a": ([b"one", b"two"], "byte"), "n": ([1, 2**40], "int"), "f": (1.0, "float")}
        )
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    try:
        found = example_features(io.BytesIO(bytes(payload)), 0, len(payload))
    except ValueError:
        return
    for member in example_members(found, "text"):
        assert 0 <= member.offset <= member.offset + member.length <= len(payload)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0b",
        b"\x00\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a" + b"\xff" * 30,
        b"\x0d\x01",
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(Walk(io.BytesIO(data), 99).fields(0, len(data)))


def test_a_length_that_lies_is_named(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**63)
    huge = length + records_module().TFRecordWriter.masked_crc(length)
    for name in ("x.tfrecord", "x.tfrecord.gz"):
        first = framed(b"a") + huge + b"x" * 30
        packed = gzip.compress(first) if name.endswith("gz") else first
        index, _ = indexed(tmp_path / name, packed, name)
        assert len(index) == 1 and "inside record 1" in index.problems[0].reason
        index, _ = indexed(tmp_path / name, b"\x01" * 12, name.removesuffix(".gz"))
        assert any("damaged" in problem.reason for problem in index.problems)


@pytest.mark.parametrize("name", ["x.tfrecord", "x.tfrecord.gz"])
def test_a_record_that_is_too_long_is_broken_and_the_next_is_not(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfrecord, "RECORD_BYTES", 100)
    data = framed(b"a" * 101, b"b")
    index, reader = indexed(tmp_path, gzip.compress(data) if name.endswith("gz") else data, name)
    assert "longer" in str(index.location(0).broken)
    assert reader.read_raw(index.location(1)) == {"record": b"b"}


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    index, reader = indexed(tmp_path, framed(b"one", b"two"))
    (tmp_path / "x.tfrecord").write_bytes(framed(b"three", b"two"))
    with pytest.raises(StaleIndexError):
        reader.read_raw(index.location(1))


@pytest.mark.parametrize(
    ("path", "is_records"),
    [
        ("a/train-00000-of-01024", True),
        ("mnist-train.tfrecord-00000-of-00001", True),
        ("x.TFRecords.gz", True),
        ("train-00000-of-00010.parquet", False),
        ("model-00001-of-00002.safetensors", False),
        ("tfrecord", False),
    ],
)
def test_files_are_known_by_their_names(path: str, is_records: bool) -> None:
    assert (container_of(path) == "tfrecord") == is_records


def test_checksums_are_those_of_the_format() -> None:
    assert google_crc32c.value(b"123456789") == 0xE3069283
    assert recordframe.record_length(framed(b"abc")[:12]) == 3
