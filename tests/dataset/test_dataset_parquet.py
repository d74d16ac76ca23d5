from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up_media import parquet, picture, write_all

from headrace.core.errors import CorruptSampleError, NotFoundError
from headrace.dataset import parquetgroups
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import ReaderLimits, SampleReader, decode_fields
from headrace.dataset.rowcolumns import choose_columns
from headrace.dataset.scan import ScanOptions
from headrace.storage.local import LocalStorage


def opened(root: Path, data: bytes) -> tuple[Index, SampleReader]:
    storage = LocalStorage(write_all(root, {"x.parquet": data}))
    return build_index(storage), SampleReader(storage)


def test_a_row_with_an_image_a_caption_and_a_label_is_a_sample(tmp_path: Path) -> None:
    data = parquet(
        {
            "image": [{"bytes": picture(8 + n, 8), "path": f"{n}.jpg"} for n in range(10)],
            "label": list(range(10)),
            "caption": [f"caption {n}" for n in range(10)],
            "url": ["http://…"] * 10,
        }
    )
    index, reader = opened(tmp_path, data)
    assert len(index) == 10
    for n in (9, 0, 5, 4):
        location = index.location(n)
        assert (location.kind, location.width) == ("image", 8 + n)
        assert (location.block, location.row) == divmod(n, 4)
        assert decode_fields(location, reader.read_raw(location)) == {
            "image": picture(8 + n, 8),
            "label": n,
            "text": f"caption {n}",
        }


def test_plain_binary_columns_are_images_too(tmp_path: Path) -> None:
    index, reader = opened(tmp_path, parquet({"jpg": [picture(8, 8)]}))
    assert reader.read_raw(index.location(0)) == {"image": picture(8, 8)}


@pytest.mark.parametrize("name", ["image", "photo", "frame"])
def test_a_hash_before_the_picture_is_not_taken_for_it(tmp_path: Path, name: str) -> None:
    data = picture(8, 8)
    value = {"bytes": data, "path": "a"} if name == "frame" else data
    index, reader = opened(tmp_path, parquet({"sha": [b"abcd"], name: [value]}))
    assert reader.read_raw(index.location(0)) == {"image": data}


def test_columns_that_arrow_holds_in_other_ways_are_the_same_columns(tmp_path: Path) -> None:
    data = picture(8, 8)
    texts = pa.array(["cat", "dog", "cat"]).dictionary_encode()
    pictures = pa.array([data] * 3, pa.binary_view())
    index, reader = opened(tmp_path, parquet({"image": pictures, "text": texts}))
    raw = [reader.read_raw(index.location(row)) for row in range(3)]
    assert raw == [{"image": data, "text": text} for text in (b"cat", b"dog", b"cat")]


def test_a_table_without_rows_is_no_dataset_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"1 empty, x\.parquet for one"):
        opened(tmp_path, parquet({"text": pa.array([], pa.string())}))


def test_members_name_the_column_chunks_of_their_row_group(tmp_path: Path) -> None:
    data = parquet({"text": [f"line {n}" for n in range(10)]})
    index, _ = opened(tmp_path, data)
    chunks = {(m.offset, m.length) for n in range(10) for m in index.location(n).members}
    assert len(chunks) == 3
    assert all(offset >= 4 and offset + length < len(data) for offset, length in chunks)


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ({"text": pa.string()}, {"text": "text"}),
        ({"id": pa.string(), "content": pa.string()}, {"text": "content"}),
        ({"title": pa.large_string()}, {"text": "title"}),
        ({"image": pa.binary(), "name": pa.string()}, {"image": "image"}),
        ({"audio": pa.struct({"bytes": pa.binary()})}, {"audio": "audio.bytes"}),
        ({"mp4": pa.binary(), "thumb": pa.binary()}, {"video": "mp4", "image": "thumb"}),
        ({"label": pa.int64(), "x": pa.float32()}, {}),
    ],
)
def test_columns_are_chosen_by_type_and_name(
    schema: dict[str, pa.DataType], fields: dict[str, str]
) -> None:
    chosen = choose_columns(pa.schema(schema), "content")
    assert {column.field: column.path for column in chosen} == fields


def test_a_null_image_is_a_broken_row_and_a_corrupt_sample(tmp_path: Path) -> None:
    index, reader = opened(tmp_path, parquet({"image": pa.array([picture(8, 8), None])}))
    assert "null" in str(index.location(1).broken)
    with pytest.raises(CorruptSampleError, match="null"):
        reader.read_raw(index.location(1))


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1", parquet({"text": ["a"] * 50})[:-30]],
)
def test_a_wrong_footer_is_a_problem_and_not_a_stop(tmp_path: Path, data: bytes) -> None:
    write_all(tmp_path, {"a.parquet": data, "b.jpg": picture(8, 8)})
    index = build_index(LocalStorage(tmp_path))
    assert len(index) == 1
    assert "Parquet" in index.problems[0].reason


def test_a_footer_that_names_other_columns_than_the_schema_is_a_problem(tmp_path: Path) -> None:
    data = bytearray(parquet({"text": ["one", "two"]}))
    at = data.rindex(b"\x04text")
    data[at : at + 5] = b"\x04tezt"
    write_all(tmp_path, {"a.parquet": bytes(data), "b.jpg": picture(8, 8)})
    index = build_index(LocalStorage(tmp_path))
    assert len(index) == 1
    assert "no chunk of its column 'text'" in index.problems[0].reason


@pytest.mark.parametrize(
    ("written", "damaged"),
    [(b"\x15\x0c\x25\x02\x18\x04text", b"\x15\x0c\x25\x00\x18\x04text"),
     (b"\x15\x0c\x25\x02\x18\x04text", b"\x15\x00\x25\x02\x18\x04text")],
    ids=["optional became required", "bytes became booleans"],
)  # fmt: skip
def test_a_footer_with_statistics_of_another_type_does_not_end_the_process(
    tmp_path: Path, written: bytes, damaged: bytes
) -> None:
    data = parquet({"text": ["one", "two"]})
    assert written in data
    write_all(tmp_path, {"a.parquet": data.replace(written, damaged), "b.jpg": picture(8, 8)})
    index = build_index(LocalStorage(tmp_path))
    assert len(index) == 1
    assert index.problems[0].file == "a.parquet"


def test_a_file_without_media_or_text_says_which_columns_it_has(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.parquet": parquet({"x": [1.0], "y": [2]})})
    index = build_index(LocalStorage(tmp_path), options=ScanOptions(text_field="body"))
    assert "x, y" in index.problems[0].reason


def test_a_file_with_two_columns_of_one_name_is_named(tmp_path: Path) -> None:
    target = io.BytesIO()
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), target)
    write_all(tmp_path, {"a.parquet": target.getvalue(), "b.jpg": picture(8, 8)})
    index = build_index(LocalStorage(tmp_path))
    assert "2 columns are called 'text'" in index.problems[0].reason


def test_a_damaged_page_is_a_corrupt_sample(tmp_path: Path) -> None:
    data = parquet({"text": [f"{n} " * 300 for n in range(8)]}, row_group=8)
    index, reader = opened(tmp_path, data)
    location = index.location(3)
    member = location.members[0]
    path = tmp_path / "x.parquet"
    stamp = path.stat().st_mtime_ns
    end = member.offset + member.length
    path.write_bytes(data[: member.offset] + b"\xff" * member.length + data[end:])
    os.utime(path, ns=(stamp, stamp))
    with pytest.raises(CorruptSampleError, match="row group"):
        reader.read_raw(location)


def test_a_row_group_that_is_too_large_is_named_when_it_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{n} " * 300 for n in range(12)]
    data = parquet({"text": texts}, row_group=6)
    index, reader = opened(tmp_path, data)
    monkeypatch.setattr(parquetgroups, "GROUP_BYTES", 5000)
    with pytest.raises(CorruptSampleError, match=r"row group 1 of .* larger than .* fewer rows"):
        reader.read_raw(index.location(7))
    again, _ = opened(tmp_path, parquet({"text": [*texts[:2], "x" * 6000]}, row_group=2))
    assert len(again) == 2
    assert "row group 1 of 0 MiB is larger" in again.problems[0].reason


def test_a_row_group_that_grows_when_it_is_decoded_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text, said once in a dictionary, for all rows."""
    data = parquet({"text": ["x" * 1000] * 2000}, row_group=2000)
    monkeypatch.setattr(parquetgroups, "GROUP_BYTES", 1_000_000)
    index, _ = opened(tmp_path, data)
    assert len(index) < 1000
    assert "row group 0" in index.problems[0].reason


def test_threads_that_want_the_same_row_group_decode_it_once(tmp_path: Path) -> None:
    index, reader = opened(tmp_path, parquet({"text": [str(n) for n in range(64)]}, row_group=64))
    seen: list[bytes] = []
    threads = [
        threading.Thread(target=lambda n=n: seen.append(reader.read_raw(index.location(n))["text"]))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, seen)) == list(range(16))
    assert reader.statistics().row_groups.misses == 1


def test_no_more_than_the_limit_is_kept(tmp_path: Path) -> None:
    data = parquet({"text": ["x" * 1000] * 40}, row_group=4)
    index, _ = opened(tmp_path, data)
    limits = ReaderLimits(row_group_bytes=10_000)
    reader = SampleReader(LocalStorage(tmp_path), limits=limits)
    for n in range(40):
        reader.read_raw(index.location(n))
    kept = reader.statistics().row_groups
    assert kept.bytes <= 10_000
    assert kept.misses == 10
