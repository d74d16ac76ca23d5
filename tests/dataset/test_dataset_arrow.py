"""Rows of Arrow files and of Hugging Face's datasets are samples, read by range where they can."""

from __future__ import annotations

import io
import json
import os
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import clip, picture, write_all

from headrace.core.errors import CorruptDataError, CorruptSampleError, StaleIndexError
from headrace.core.record import Record
from headrace.dataset import arrow, arrowbatches
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.location import SampleLocation
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.dataset.scan import ScanOptions
from headrace.storage.local import LocalStorage

MEDIUM = pa.struct({"bytes": pa.binary(), "path": pa.string()})
PICTURES = [picture(8 + n, 6) for n in range(6)]
FEATURES = datasets.Features(
    {
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "text": datasets.Value("string"),
    }
)


@pytest.fixture(autouse=True)
def quiet() -> None:
    datasets.disable_progress_bars()


def rows(count: int = 6) -> dict[str, list[Any]]:
    return {
        "image": [{"bytes": data, "path": None} for data in PICTURES[:count]],
        "label": [n % 2 for n in range(count)],
        "text": [f"caption {n}" for n in range(count)],
    }


def dataset(count: int = 6) -> datasets.Dataset:
    return datasets.Dataset.from_dict(rows(count), features=FEATURES)


def opened(root: Path, **options: Any) -> tuple[Index, SampleReader]:
    storage = LocalStorage(root)
    return build_index(storage, options=ScanOptions(**options)), SampleReader(storage)


def records(root: Path, **options: Any) -> list[Record]:
    index, reader = opened(root, **options)
    return [record(reader, index.location(n)) for n in range(len(index))]


def record(reader: SampleReader, location: SampleLocation) -> Record:
    found = reader.open_record(location)
    assert decode_fields(location, reader.read_raw(location)).keys() == found.keys()
    return found


def stream(table: Mapping[str, Any] | pa.Table, *, rows: int = 2, **options: Any) -> bytes:
    table = table if isinstance(table, pa.Table) else pa.table(table)
    sink = pa.BufferOutputStream()
    given = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, table.schema, options=given) as writer:
        writer.write_table(table, max_chunksize=rows)
    return bytes(sink.getvalue())


def file(table: Mapping[str, Any], *, rows: int = 2, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    made = pa.table(table)
    given = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_file(sink, made.schema, options=given) as writer:
        writer.write_table(made, max_chunksize=rows)
    return bytes(sink.getvalue())


def reasons(index: Index) -> list[str]:
    return [problem.reason for problem in index.problems]


def test_a_saved_dataset_is_read_by_range(tmp_path: Path) -> None:
    dataset().save_to_disk(str(tmp_path), num_shards=2)
    index, reader = opened(tmp_path)
    wanted = [{"image": PICTURES[n], "label": n % 2, "text": f"caption {n}"} for n in range(6)]
    assert [record(reader, index.location(n)) for n in range(6)] == wanted
    assert reader.statistics().row_groups.misses == 0
    first = index.location(0)
    assert (first.kind, first.container, first.block, first.broken) == ("image", "arrow", -1, None)
    assert (first.width, first.height, first.length) == (8, 6, len(PICTURES[0]) + 10)
    data = (tmp_path / first.file).read_bytes()
    image = first.members[0]
    assert data[image.offset : image.offset + image.length] == PICTURES[0]
    assert index.problems == ()
    assert index.classes == ("cat", "dog")
    assert [index.location(n).label for n in range(6)] == [0, 1] * 3


def test_a_run_of_rows_is_one_read(tmp_path: Path) -> None:
    dataset().save_to_disk(str(tmp_path))
    index, reader = opened(tmp_path)
    locations = [index.location(n) for n in range(6)]
    assert reader.read_run(locations) == [reader.read_raw(location) for location in locations]


def test_splits_are_folders_and_what_the_library_keeps_for_itself_is_left_out(
    tmp_path: Path,
) -> None:
    splits = {"train": dataset(4), "test": dataset(2)}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path))
    write_all(tmp_path, {"train/cache-0123.arrow": stream({"text": ["derived"]})})
    index, _ = opened(tmp_path)
    assert {index.location(n).file.split("/")[0] for n in range(6)} == {"train", "test"}
    assert len(index) == 6
    assert len(opened(tmp_path / "test")[0]) == 2


def test_the_librarys_cache_is_read_without_what_it_derived(tmp_path: Path) -> None:
    shard = "a___b/default/0.0.0/1f2e/b-train-00000-of-00001.arrow"
    files = {"cache-9a.arrow": stream({"text": ["derived"]}), "dataset_info.json": b"{}"}
    beside = {f"a___b/default/0.0.0/1f2e/{name}": data for name, data in files.items()}
    write_all(tmp_path, {shard: stream(dataset(2).data.table), **beside})
    index, _ = opened(tmp_path)
    assert [index.location(n).file for n in range(len(index))] == [shard] * 2
    assert index.meta.ignored == {"arrow": 1, "json": 1}


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    dataset().save_to_disk(str(tmp_path), num_shards=3)
    (tmp_path / "data-00001-of-00003.arrow").unlink()
    index, _ = opened(tmp_path)
    assert reasons(index) == ["of 3 shards 1 are missing, such as data-00001-of-00003.arrow"]
    (tmp_path / "state.json").write_bytes(b"{}")
    assert "does not tell" in reasons(opened(tmp_path)[0])[0]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_are_decoded_once_and_give_the_same(
    tmp_path: Path, compression: str
) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    table = dataset().data.table
    write_all(plain, {"x.arrow": stream(table, rows=3)})
    write_all(packed, {"x.arrow": stream(table, rows=3, compression=compression)})
    index, reader = opened(packed)
    assert records(packed) == records(plain)
    for n in range(6):
        reader.read_raw(index.location(n))
    assert reader.statistics().row_groups.misses == 2
    assert [(index.location(n).block, index.location(n).row) for n in range(6)] == [
        (n // 3, n % 3) for n in range(6)
    ]


def test_feather_files_and_their_dictionaries_are_read(tmp_path: Path) -> None:
    texts = pa.array(["cat", "dog", "cat", "dog"]).dictionary_encode()
    table = pa.table({"caption": texts, "picture": pa.array(PICTURES[:4], pa.large_binary())})
    for compression in ("lz4", "uncompressed"):
        path = tmp_path / compression / "x.feather"
        path.parent.mkdir()
        pyarrow.feather.write_feather(table, str(path), compression=compression, chunksize=3)
        assert [r["text"] for r in records(path.parent)] == ["cat", "dog", "cat", "dog"]
        assert [r["image"] for r in records(path.parent)] == PICTURES[:4]


@pytest.mark.parametrize("container", [stream, file])
@pytest.mark.parametrize("integer", ["int8", "uint16", "int32", "uint64"])
def test_labels_of_any_width_are_numbers(tmp_path: Path, container: Any, integer: str) -> None:
    labels = pa.array([3, 0, 100], getattr(pa, integer)())
    table = {"cls": labels, "mp4": pa.array([clip(frames=3)] * 3)}
    write_all(tmp_path, {"x.arrow": container(table)})
    found = records(tmp_path)
    assert [record["label"] for record in found] == [3, 0, 100]
    assert opened(tmp_path)[0].location(0).kind == "video"
    assert opened(tmp_path)[0].location(0).label is None


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_label_beyond_what_a_batch_can_hold_is_told_of(
    tmp_path: Path, compression: str | None
) -> None:
    labels = pa.array([(1 << 63) - 1, 1 << 63], pa.uint64())
    table = {"text": pa.array(["a", "b"]), "label": labels}
    write_all(tmp_path, {"x.arrow": stream(table, compression=compression)})
    index, reader = opened(tmp_path)
    assert record(reader, index.location(0))["label"] == (1 << 63) - 1
    with pytest.raises(CorruptSampleError, match=r"its label .* has more than 64 bits"):
        record(reader, index.location(1))


def test_nulls_of_a_medium_are_broken_rows_and_of_other_fields_absent(tmp_path: Path) -> None:
    table = {
        "image": pa.array([PICTURES[0], None, PICTURES[2]]),
        "label": pa.array([None, 1, 2]),
        "text": pa.array(["a", "b", None]),
    }
    for name, options in (("plain", {}), ("packed", {"compression": "lz4"})):
        write_all(tmp_path / name, {"x.arrow": stream(table, rows=3, **options)})
        index, reader = opened(tmp_path / name)
        assert "null" in str(index.location(1).broken)
        assert record(reader, index.location(0)) == {"image": PICTURES[0], "text": "a"}
        assert record(reader, index.location(2)) == {"image": PICTURES[2], "label": 2}


def test_a_slow_column_of_hugging_faces_is_the_medium_that_its_feature_says(tmp_path: Path) -> None:
    features = {"speech": {"_type": "Audio"}, "film": {"_type": "Video"}}
    meta = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    schema = pa.schema({"speech": MEDIUM, "film": MEDIUM}, metadata=meta)
    row = {"bytes": b"RIFF", "path": "x.wav"}
    table = pa.Table.from_pylist([{"speech": row, "film": row}], schema=schema)
    write_all(tmp_path, {"x.arrow": stream(table)})
    index, _ = opened(tmp_path)
    assert {member.field for member in index.location(0).members} == {"audio", "video"}


@pytest.mark.parametrize(
    "metadata", [b"{", b"[" * 100_000, b'{"info": 3}', b'{"info":{"features":{"image":[]}}}']
)
def test_features_that_make_no_sense_say_nothing(tmp_path: Path, metadata: bytes) -> None:
    schema = pa.schema({"image": pa.binary()}, metadata={b"huggingface": metadata})
    write_all(tmp_path, {"x.arrow": stream(pa.table([PICTURES[:2]], schema=schema))})
    assert [record["image"] for record in records(tmp_path)] == PICTURES[:2]


def test_files_that_disagree_on_their_classes_are_named_and_have_none(tmp_path: Path) -> None:
    for name, classes in (("a", ["cat", "dog"]), ("b", ["dog", "cat"])):
        features = datasets.Features({**FEATURES, "label": datasets.ClassLabel(names=classes)})
        made = datasets.Dataset.from_dict(rows(2), features=features)
        made.save_to_disk(str(tmp_path / name))
    index, reader = opened(tmp_path)
    assert index.classes == ()
    assert len(index.problems) == 2
    assert "index datasets one by one" in index.problems[0].reason
    assert [record(reader, index.location(n))["label"] for n in range(4)] == [0, 1, 0, 1]


def test_classes_are_kept_where_nothing_is_scanned_again(tmp_path: Path) -> None:
    dataset().save_to_disk(str(tmp_path), num_shards=2)
    index, _ = opened(tmp_path)
    again = build_index(LocalStorage(tmp_path), previous=index)
    assert again.classes == ("cat", "dog")
    assert again.digest == index.digest


def test_a_row_may_name_a_file_of_the_dataset(tmp_path: Path) -> None:
    named = ["in/a.png", "../up.png", "/etc/passwd", "gone.png", "https://x.org/a.png", None]
    images = pa.array([{"bytes": None, "path": name} for name in named], MEDIUM)
    table = {"image": images, "text": [f"{n}" for n in range(6)]}
    write_all(tmp_path, {"set/x.arrow": stream(table, rows=6), "set/in/a.png": PICTURES[0]})
    index, reader = opened(tmp_path)
    assert len(index) == 6
    first = index.location(0)
    assert record(reader, first) == {"image": PICTURES[0], "text": "0"}
    assert (first.width, first.length, first.broken) == (8, len(PICTURES[0]) + 1, None)
    assert first.cost_s > 0
    broken = [str(index.location(n).broken) for n in range(1, 6)]
    assert ["no image of this" in reason for reason in broken] == [True] * 3 + [False] * 2
    assert "not fetched" in broken[3]
    assert "null" in broken[4]


@pytest.mark.parametrize("ending", ["arrow", "feather", "parquet"])
def test_a_column_without_a_name_is_a_column(tmp_path: Path, ending: str) -> None:
    """Tools that write an index without a name write such."""
    table = pa.table({"": ["eins", "zwei"]})
    if ending == "parquet":
        pq.write_table(table, tmp_path / "x.parquet")
    else:
        pa.feather.write_feather(table, str(tmp_path / f"x.{ending}"), compression="uncompressed")
    assert [found["text"] for found in records(tmp_path)] == ["eins", "zwei"]


def test_rows_that_name_files_are_read_in_one_run_with_others(tmp_path: Path) -> None:
    held = {"bytes": PICTURES[1], "path": None}
    images = pa.array([held, {"bytes": None, "path": "a.png"}, held], MEDIUM)
    write_all(tmp_path, {"x.arrow": stream({"image": images}, rows=3), "a.png": PICTURES[0]})
    index, reader = opened(tmp_path)
    run = reader.read_run([index.location(n) for n in range(3)])
    assert [raw["image"] for raw in run] == [PICTURES[1], PICTURES[0], PICTURES[1]]


def test_a_named_file_that_changed_or_vanished_is_not_read(tmp_path: Path) -> None:
    images = [{"bytes": None, "path": "a.png"}]
    table = {"image": pa.array(images, MEDIUM)}
    write_all(tmp_path, {"x.arrow": stream(table), "a.png": PICTURES[0]})
    index, reader = opened(tmp_path)
    (tmp_path / "a.png").write_bytes(PICTURES[0] + b"more")
    with pytest.raises(StaleIndexError, match=r"a\.png, which has"):
        reader.read_raw(index.location(0))
    (tmp_path / "a.png").unlink()
    with pytest.raises(StaleIndexError, match="is gone"):
        reader.read_raw(index.location(0))


def damaged(data: bytes) -> Sequence[tuple[bytes, str]]:
    return (
        (b"", "no end marker"),
        (b"ARROW1\0\0", "no end marker"),
        (b"FEA1" + bytes(60), "no Arrow file"),
        (os.urandom(4096), "Arrow"),
        (data[: len(data) // 2], "ends inside"),
        (data[:-8], "no end marker"),
        (b"\xff\xff\xff\xff" + struct.pack("<i", 16) + b"\xff" * 200, "Arrow"),
        (b"\xff\xff\xff\xff" + struct.pack("<i", 1 << 30) + bytes(64), "ends inside"),
    )


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_file_is_named_and_stops_nothing(tmp_path: Path, number: int) -> None:
    data, reason = damaged(stream(rows_of_bytes()))[number]
    write_all(tmp_path, {"x.arrow": data, "b.jpg": picture(8, 8)})
    index, _ = opened(tmp_path)
    assert {index.location(n).container for n in range(len(index))} <= {"file", "arrow"}
    assert [reason in each for each in reasons(index)] == [True]


def rows_of_bytes() -> dict[str, Any]:
    return {"image": pa.array(PICTURES), "text": [f"caption {n}" for n in range(6)]}


def test_of_a_file_that_is_cut_off_the_whole_batches_are_kept(tmp_path: Path) -> None:
    data = stream(rows_of_bytes())
    write_all(tmp_path, {"x.arrow": data[:-100]})
    index, _ = opened(tmp_path)
    assert len(index) == 4
    assert reasons(index)[0].startswith("only the 4 rows before the damage are kept; then: ")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_bytes_that_were_changed_anywhere_are_no_crash(data: st.DataObject) -> None:
    """A mutated file is read as something, or named; never more than that."""
    whole = bytearray(
        stream(rows_of_bytes(), compression=data.draw(st.sampled_from([None, "lz4"])))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    source = io.BytesIO(bytes(whole))
    try:
        head = arrowbatches.read_head(source, len(whole))
        for message in arrowbatches.record_batches(source, len(whole)):
            found = arrowbatches.message_bytes(source, message)
            arrowbatches.read_batch(head, found, head.schema.names).to_pylist()
    except CorruptDataError:
        pass


def test_a_batch_that_would_take_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(tmp_path, {"x.arrow": stream({"text": ["x" * 500_000] * 2}, compression="zstd")})
    monkeypatch.setattr(arrowbatches, "BATCH_BYTES", 100_000)
    index, _ = opened(write_all(tmp_path, {"b.jpg": picture(8, 8)}))
    assert "fewer rows" in reasons(index)[0]


def test_large_batches_of_many_files_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, most = [0], [0]
    rows_of = arrow._Rows.samples

    def counted(*given: Any) -> Iterator[SampleLocation]:
        reading[0] += 1
        most[0] = max(most[0], reading[0])
        threading.Event().wait(0.02)  # so that others could come in
        yield from rows_of(*given)
        reading[0] -= 1

    monkeypatch.setattr(arrow._Rows, "samples", counted)
    monkeypatch.setattr(arrow, "LARGE_BYTES", 0)
    write_all(tmp_path, {f"{n}.arrow": stream(rows_of_bytes(), rows=6) for n in range(4)})
    assert len(opened(tmp_path, workers=4)[0]) == 24
    assert most[0] == 1


def test_a_batch_that_is_damaged_after_indexing_is_a_corrupt_sample(tmp_path: Path) -> None:
    data = bytearray(stream({"text": ["x" * 500] * 4}, compression="lz4"))
    path = write_all(tmp_path, {"x.arrow": bytes(data)}) / "x.arrow"
    index, reader = opened(tmp_path)
    location = index.location(0)
    stamp = path.stat().st_mtime_ns
    place = location.members[0]
    data[place.offset : place.offset + place.length] = b"\xff" * place.length
    path.write_bytes(data)
    os.utime(path, ns=(stamp, stamp))
    with pytest.raises(CorruptSampleError, match=r"row group 0 of x\.arrow"):
        reader.read_raw(location)


def test_a_file_with_two_columns_of_one_name_is_named(tmp_path: Path) -> None:
    twice = pa.table([["a"], ["b"]], names=["text", "text"])
    write_all(tmp_path, {"x.arrow": stream(twice), "b.jpg": picture(8, 8)})
    assert "2 columns are called 'text'" in reasons(opened(tmp_path)[0])[0]


def test_a_file_without_media_or_text_says_which_columns_it_has(tmp_path: Path) -> None:
    write_all(tmp_path, {"x.arrow": stream({"x": [1.0]}), "b.jpg": picture(8, 8)})
    assert "but: x; name a column" in reasons(opened(tmp_path)[0])[0]
