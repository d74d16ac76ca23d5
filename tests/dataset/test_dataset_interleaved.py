"""Documents of texts and several pictures are one sample, in any format that has them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import webdataset
from format_writers import write_mds, write_records
from made_up_media import clip, picture, write_all

from headrace import Loader, Pipeline, ops
from headrace.core.errors import CorruptSampleError
from headrace.core.record import Record
from headrace.dataset import documentline, interleaved, tar
from headrace.dataset.build import build_index
from headrace.dataset.describe import compare_files
from headrace.dataset.index import Index
from headrace.dataset.listing import list_dataset
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.prepare.profiles import fields_of, profiles_of
from headrace.storage.local import LocalStorage

PICTURES = [picture(8 + n, 6) for n in range(6)]
MEDIUM = pa.struct({"bytes": pa.binary(), "path": pa.string()})
MARKS = "<image>one\n<image>two"


def opened(root: Path) -> tuple[Index, SampleReader]:
    storage = LocalStorage(root)
    return build_index(storage), SampleReader(storage)


def records(root: Path) -> list[Record]:
    index, reader = opened(root)
    found = []
    for location in map(index.location, range(len(index))):
        found.append(reader.open_record(location))
        assert decode_fields(location, reader.read_raw(location)) == found[-1]
    return found


def broken(root: Path) -> list[str | None]:
    index, _ = opened(root)
    return [index.location(n).broken for n in range(len(index))]


def as_parquet(table: pa.Table) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target, row_group_size=2)
    return target.getvalue()


def as_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return bytes(sink.getvalue())


def as_feather(table: pa.Table) -> bytes:
    target = io.BytesIO()
    pyarrow.feather.write_feather(table, target, compression="lz4", chunksize=2)
    return target.getvalue()


FORMATS: dict[str, Callable[[pa.Table], bytes]] = {
    "x.parquet": as_parquet,
    "x.arrow": as_stream,
    "x.feather": as_feather,
}


def held(*pictures: bytes | None) -> list[dict[str, bytes | None] | None]:
    return [None if data is None else {"bytes": data, "path": None} for data in pictures]


def test_numbered_members_of_a_tar_are_the_pictures_of_a_sample(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "x.tar")) as writer:
        for n in range(2):
            pictures = {f"{number}.jpg": PICTURES[number] for number in range(2 + n)}
            sample = {"__key__": f"doc{n}", **pictures, "txt": MARKS, "json": {"n": n}}
            writer.write(sample)
    index, reader = opened(tmp_path)
    found = [reader.open_record(index.location(n)) for n in range(2)]
    assert [record["text"] for record in found] == [MARKS] * 2
    assert [record["json"] for record in found] == ['{"n": 0}', '{"n": 1}']
    for n, record in enumerate(found):
        assert [record[f"image.{number}"] for number in range(2 + n)] == PICTURES[: 2 + n]
    first, second = index.location(0), index.location(1)
    assert (first.kind, first.width, first.broken) == ("image", 8, None)
    assert second.cost_s > first.cost_s


def test_a_broken_picture_of_a_tar_is_named_by_its_number(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "x.tar"), encoder=False) as writer:
        writer.write({"__key__": "a", "0.jpg": PICTURES[0], "1.jpg": b"no picture"})
    assert str(broken(tmp_path)[0]).startswith("image.1: not an image")


def test_each_picture_of_mds_and_tfrecords_is_looked_at(tmp_path: Path) -> None:
    rows = [[PICTURES[0]], PICTURES[:3], [PICTURES[0], b"no picture"]]
    write_mds(tmp_path / "mds", {"x": "jpeg_array"}, [{"x": row} for row in rows])
    plain = write_records(tmp_path / "x.tfrecord", [{"image": (row, "byte")} for row in rows])
    (tmp_path / "y.tfrecord.gz").write_bytes(gzip.compress(plain.read_bytes()))
    index, _ = opened(tmp_path)
    for begin in (0, 3, 6):
        one, three, bad = (index.location(begin + n) for n in range(3))
        assert three.cost_s > 2 * one.cost_s
        assert str(bad.broken).startswith("image.1: not an image")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("plain", [False, True])
def test_lists_of_pictures_are_numbered_fields(tmp_path: Path, name: str, plain: bool) -> None:
    rows = [PICTURES[:2], [], PICTURES[2:5], None]
    if plain:
        images = pa.array(rows, pa.list_(pa.large_binary()))
    else:
        images = pa.array([None if r is None else held(*r) for r in rows], pa.list_(MEDIUM))
    table = pa.table({"images": images, "text": [MARKS, "none", "no places", "null"]})
    write_all(tmp_path, {name: FORMATS[name](table)})
    assert records(tmp_path) == [
        {"image.0": PICTURES[0], "image.1": PICTURES[1], "text": MARKS},
        {"text": "none"},
        {
            "image.0": PICTURES[2],
            "image.1": PICTURES[3],
            "image.2": PICTURES[4],
            "text": "no places",
        },
        {"text": "null"},
    ]
    index, _ = opened(tmp_path)
    assert [index.kind(n) for n in range(4)] == ["image", "text", "image", "text"]
    assert broken(tmp_path) == [None] * 4
    assert index.location(2).length == sum(map(len, PICTURES[2:5])) + len("no places")


@pytest.mark.parametrize("name", FORMATS)
def test_texts_in_pieces_stand_where_there_is_no_picture(tmp_path: Path, name: str) -> None:
    images = [held(PICTURES[0], None, PICTURES[1]), held(None), held(PICTURES[0], PICTURES[1])]
    texts = [[None, "between", None], ["alone"], [None, "one too few"]]
    table = pa.table(
        {
            "images": pa.array(images, pa.list_(MEDIUM)),
            "texts": pa.array(texts, pa.list_(pa.string())),
        }
    )
    write_all(tmp_path, {name: FORMATS[name](table)})
    index, reader = opened(tmp_path)
    assert reader.open_record(index.location(0)) == {
        "image.0": PICTURES[0],
        "image.1": PICTURES[1],
        "text": "<image>\nbetween\n<image>",
    }
    assert reader.open_record(index.location(1)) == {"text": "alone"}
    assert broken(tmp_path) == [
        None,
        None,
        "its text has places for 1 pictures, but there are 2",
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_may_name_its_pictures(tmp_path: Path, name: str) -> None:
    named = [["in/0.png", None, "in/1.png"], ["gone.png"], ["https://x.org/0.png"], []]
    texts = [[None, "between", None], [None], [None], ["text"]]
    table = pa.table(
        {
            "images": pa.array(named, pa.list_(pa.string())),
            "texts": pa.array(texts, pa.list_(pa.string())),
        }
    )
    files = {f"set/in/{n}.png": PICTURES[n] for n in range(3)}
    write_all(tmp_path, {**files, f"set/{name}": FORMATS[name](table)})
    index, reader = opened(tmp_path)
    places = {index.location(n).key: index.location(n) for n in range(len(index))}
    assert set(places) == {"set/in/2.png", *(f"set/{name}#{n}" for n in range(4))}
    first = places[f"set/{name}#0"]
    assert reader.read_raw(first) == {
        "image.0": PICTURES[0],
        "image.1": PICTURES[1],
        "text": b"<image>\nbetween\n<image>",
    }
    assert first.length == len(PICTURES[0]) + len(PICTURES[1]) + len("<image>\nbetween\n<image>")
    assert "gone.png, which is no image" in str(places[f"set/{name}#1"].broken)
    assert "not fetched" in str(places[f"set/{name}#2"].broken)
    assert places[f"set/{name}#3"].broken is None


def test_urls_beside_a_whole_text_are_no_pictures(tmp_path: Path) -> None:
    table = pa.table({"images": [["https://x.org/0.png"]], "text": ["a text"]})
    write_all(tmp_path, {"x.parquet": as_parquet(table)})
    assert records(tmp_path) == [{"text": "a text"}]


def test_more_pictures_than_anybody_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleaved, "PICTURES", 2)
    table = pa.table({"images": pa.array([held(*PICTURES[:3])], pa.list_(MEDIUM))})
    write_all(tmp_path, {"x.parquet": as_parquet(table)})
    assert broken(tmp_path) == ["it has 3 pictures, more than 2"]


LINES: dict[str, tuple[Mapping[str, Any], dict[str, str]]] = {
    "marks": ({"images": ["a.png", "in/b.png"], "text": MARKS}, {"text": MARKS}),
    "pieces": (
        {"images": ["a.png", None, "in/b.png"], "texts": [None, "between", None], "metadata": [{}]},
        {"text": "<image>\nbetween\n<image>"},
    ),
    "sentences": (
        {
            "text_list": ["zero", "one", "two"],
            "image_info": [
                {"image_name": "in/b.png", "matched_text_index": 2, "matched_sim": 0.3},
                {"image_name": "a.png", "raw_url": "https://x.org/a", "matched_text_index": 0},
            ],
            "similarity_matrix": [[0.1]],
        },
        {"text": "<image>\nzero\none\n<image>\ntwo"},
    ),
    "no text": ({"images": ["a.png", "in/b.png"], "id": 3}, {}),
    "caption": ({"images": ["a.png", "in/b.png"], "caption": "both"}, {"text": "both"}),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_json_may_name_its_pictures(tmp_path: Path, name: str) -> None:
    line, text = LINES[name]
    lines = json.dumps(line).encode() + b'\n{"text": "a text"}\n'
    files = {"set/a.png": PICTURES[0], "set/in/b.png": PICTURES[1]}
    write_all(tmp_path, {**files, "set/x.jsonl": lines})
    assert records(tmp_path) == [
        {**text, "image.0": PICTURES[0], "image.1": PICTURES[1]},
        {"text": "a text"},
    ]
    index, _ = opened(tmp_path)
    assert [index.kind(n) for n in range(2)] == ["image", "text"]
    assert (index.location(0).broken, index.location(0).width) == (None, 8)


def test_clips_with_numbers_are_not_divided(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "x.tar"), encoder=False) as writer:
        writer.write({"__key__": "a", "mp4": clip(frames=3)})
        writer.write({"__key__": "b", "0.mp4": clip(frames=3)})
    index, _ = opened(tmp_path)
    alone, numbered = index.location(0), index.location(1)
    assert (len(alone.keyframes), numbered.keyframes) == (1, ())
    assert (alone.kind, numbered.kind, numbered.frames) == ("video", "video", 3)


def test_a_tar_sample_with_members_without_end_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar, "MEMBERS", 3)
    with webdataset.TarWriter(str(tmp_path / "x.tar"), encoder=False) as writer:
        writer.write({"__key__": "a", **{f"{n}.jpg": PICTURES[n] for n in range(5)}})
    assert broken(tmp_path) == ["more than 3 members have its key"]


def test_a_line_too_long_for_a_document_is_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentline, "DOCUMENT_BYTES", 30)
    line = json.dumps({"images": ["a.png"], "text": "x" * 30})
    write_all(tmp_path, {"x.jsonl": line.encode()})
    assert records(tmp_path) == [{"text": "x" * 30}]


def test_a_line_with_one_picture_has_one_field(tmp_path: Path) -> None:
    lines = b'{"image": "a.png", "text": "what it shows"}\n'
    write_all(tmp_path, {"a.png": PICTURES[0], "x.jsonl": lines})
    assert records(tmp_path) == [{"text": "what it shows", "image": PICTURES[0]}]


def turns(*said: str) -> list[dict[str, str]]:
    return [
        {"from": ("human", "gpt")[number % 2], "value": value} for number, value in enumerate(said)
    ]


CONVERSATIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"id": "0", "image": "a.png", "conversations": turns("<image>\nWhat is it?", "A cat.")},
        {"text": "<image>\nWhat is it?\nA cat.", "image": PICTURES[0]},
    ),
    (
        {"image": ["a.png", "in/b.png"], "conversations": turns("<image> or <image>?", "Yes.")},
        {"text": "<image> or <image>?\nYes.", "image.0": PICTURES[0], "image.1": PICTURES[1]},
    ),
    ({"id": "2", "conversations": turns("Hello.", "Hello.")}, {"text": "Hello.\nHello."}),
]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_conversation_is_a_text_and_who_said_it_about_any_number_of_pictures(
    tmp_path: Path, ending: str
) -> None:
    lines = b"\n".join(json.dumps(line).encode() for line, _ in CONVERSATIONS)
    data = gzip.compress(lines) if ending.endswith("gz") else lines
    write_all(tmp_path, {"a.png": PICTURES[0], "in/b.png": PICTURES[1], f"x.{ending}": data})
    found = records(tmp_path)
    said = [json.loads(str(record.pop("json"))) for record in found]
    assert said == [line["conversations"] for line, _ in CONVERSATIONS]
    assert found == [expected for _, expected in CONVERSATIONS]
    index, _ = opened(tmp_path)
    assert [index.kind(n) for n in range(3)] == ["image", "image", "text"]
    assert broken(tmp_path) == [None] * 3


TURN = pa.struct({"from": pa.string(), "value": pa.string()})


@pytest.mark.parametrize("name", FORMATS)
def test_conversations_in_columns_are_texts_and_who_said_them(tmp_path: Path, name: str) -> None:
    said = [turns("<image>\nWhat is it?", "A cat."), turns("Hello.", "Hello."), []]
    table = pa.table(
        {
            "id": ["0", "1", "2"],
            "image": pa.array(held(PICTURES[0], None, PICTURES[1]), MEDIUM),
            "conversations": pa.array(said, pa.list_(TURN)),
        }
    )
    write_all(tmp_path, {name: FORMATS[name](table)})
    found = records(tmp_path)
    assert [json.loads(str(record.pop("json"))) for record in found] == said
    assert found[0] == {"text": "<image>\nWhat is it?\nA cat.", "image": PICTURES[0]}
    assert found[2] == {"text": "", "image": PICTURES[1]}


@pytest.mark.parametrize("name", FORMATS)
def test_conversations_about_several_pictures_tell_the_place_of_each(
    tmp_path: Path, name: str
) -> None:
    images = pa.array([held(*PICTURES[:2]), held(PICTURES[2]), []], pa.list_(MEDIUM))
    said = [turns("<image> or <image>?"), turns("<image><image>"), [{"from": "gpt", "value": None}]]
    table = pa.table({"images": images, "conversations": pa.array(said, pa.list_(TURN))})
    write_all(tmp_path, {name: FORMATS[name](table)})
    index, reader = opened(tmp_path)
    record = reader.open_record(index.location(0))
    assert record["text"] == "<image> or <image>?"
    assert (record["image.0"], record["image.1"]) == (PICTURES[0], PICTURES[1])
    assert broken(tmp_path) == [
        None,
        "its text has places for 2 pictures, but there are 1",
        "a turn in 'conversations' has no 'value'",
    ]


def test_conversations_beside_a_text_are_not_looked_at(tmp_path: Path) -> None:
    said = pa.array([turns("y")], pa.list_(TURN))
    write_all(tmp_path, {"x.parquet": as_parquet(pa.table({"text": ["x"], "conversations": said}))})
    assert records(tmp_path) == [{"text": "x"}]


@pytest.mark.parametrize(
    "line",
    [
        {"image": "nginx:latest", "text": "x"},
        {"conversations": [{"from": "human", "value": "y"}], "text": "x"},
        {"image": "https://x.org/a.png", "text": "x"},
        {"images": ["https://x.org/a.png", None], "text": "x"},
        {"images": ["a.png", 3], "text": "x"},
        {"images": 5, "text": "x"},
        {"image_info": [{"image_name": 7}], "text": "x"},
        {"image_info": {"image_name": "a.png"}, "text": "x"},
        {"images": [], "text": "x"},
    ],
)
def test_lines_that_name_no_pictures_are_texts_as_ever(
    tmp_path: Path, line: Mapping[str, Any]
) -> None:
    write_all(tmp_path, {"x.jsonl": json.dumps(line).encode()})
    assert records(tmp_path) == [{"text": "x"}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"images": ["a.png"], "text": MARKS}, "places for 2 pictures, but there are 1"),
        ({"images": ["a.png"], "texts": ["x"]}, None),
        ({"images": ["a.png"], "texts": [None, None]}, "places for 2 pictures"),
        ({"images": ["a.png"], "texts": [3]}, "'texts' are no strings"),
        ({"images": ["../up.png"], "text": "x"}, "up.png, which is no image of this dataset"),
        ({"images": ["/etc/a.png"], "text": "x"}, "/etc/a.png, which is no image"),
        ({"images": [".headrace/a.png"], "text": "x"}, "which is no image"),
        (
            {"image_info": [{"image_name": "a.png", "matched_text_index": 1}], "text_list": ["x"]},
            "'matched_text_index' is that of no text",
        ),
        ({"image_info": [{"image_name": "a.png"}], "text_list": [1]}, "'text_list' has no strings"),
        ({"images": ["bad.png"], "text": "x"}, "not an image"),
        ({"conversations": [{"from": "human"}]}, "no strings called 'value'"),
        ({"conversations": turns("<image>?")}, "places for 1 pictures, but there are 0"),
        ({"image": "gone.png", "conversations": turns("<image>?")}, "gone.png, which is no image"),
    ],
)
def test_documents_that_do_not_fit_together_are_broken(
    tmp_path: Path, line: Mapping[str, Any], reason: str | None
) -> None:
    files = {"a.png": PICTURES[0], "bad.png": b"no picture"}
    write_all(tmp_path, {**files, "x.jsonl": json.dumps(line).encode()})
    index, _ = opened(tmp_path)
    found = {index.location(n).key: index.location(n).broken for n in range(len(index))}
    assert found["x.jsonl#0"] is None if reason is None else reason in str(found["x.jsonl#0"])


@pytest.mark.parametrize(
    "line", [b'{"images": ["a.png"], "text": "\xff"}', b'{"images": ["a.png"], "\xff": "x"}']
)
def test_documents_that_are_no_json_are_broken_lines(tmp_path: Path, line: bytes) -> None:
    write_all(tmp_path, {"x.jsonl": line})
    assert str(broken(tmp_path)[0]).startswith(("not a line of JSON", "not a JSON object"))


def test_a_picture_that_two_documents_name_is_in_both(tmp_path: Path) -> None:
    lines = [{"images": ["a.png", "a.png"], "text": "x"}, {"image": "a.png", "text": "y"}]
    data = b"\n".join(json.dumps(line).encode() for line in lines)
    write_all(tmp_path, {"a.png": PICTURES[0], "x.jsonl": data})
    found = records(tmp_path)
    assert [sorted(record) for record in found] == [
        ["image.0", "image.1", "text"],
        ["image", "text"],
    ]
    assert opened(tmp_path)[0].location(0).length == len(data.splitlines()[0]) + 2 * len(
        PICTURES[0]
    )


def test_documents_are_taken_over_and_their_pictures_looked_at_again(tmp_path: Path) -> None:
    line = json.dumps({"images": ["a.png"], "text": "x"}).encode()
    write_all(tmp_path, {"a.png": PICTURES[0], "x.jsonl": line})
    first = build_index(LocalStorage(tmp_path))
    write_all(tmp_path, {"a.png": picture(30, 30)})
    again = build_index(LocalStorage(tmp_path), previous=first)
    assert again.digest == build_index(LocalStorage(tmp_path)).digest != first.digest
    assert (again.location(0).width, len(again)) == (30, 1)


def test_pictures_that_documents_name_are_nothing_new_but_may_change_or_go(tmp_path: Path) -> None:
    line = json.dumps({"images": ["a.png", "b.png"], "text": "x"}).encode()
    write_all(tmp_path, {"a.png": PICTURES[0], "b.png": PICTURES[1], "x.jsonl": line})
    storage = LocalStorage(tmp_path)
    index = build_index(storage)
    assert not compare_files(index, list_dataset(storage))
    (tmp_path / "a.png").write_bytes(PICTURES[0] + b"more")
    (tmp_path / "b.png").unlink()
    stale = compare_files(index, list_dataset(storage))
    assert (stale.changed, stale.gone, stale.new) == (("a.png",), ("b.png",), ())


def documents(root: Path, counts: list[int]) -> Path:
    rows = [held(*(picture(20 + n, 18) for n in range(count))) for count in counts]
    table = pa.table(
        {"images": pa.array(rows, pa.list_(MEDIUM)), "text": [str(count) for count in counts]}
    )
    return write_all(root, {"x.arrow": as_stream(table)})


def test_the_typical_document_has_the_mean_number_of_pictures(tmp_path: Path) -> None:
    index, _ = opened(documents(tmp_path, [1, 3, 5]))
    (profile,) = profiles_of([index])
    assert (profile.kind, profile.values, profile.width) == ("image", 3, 20)
    assert fields_of([index])["image"] >= {"image.0", "image.4", "text"}


def loader(root: Path, **options: Any) -> Loader:
    pipeline = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(8), ops.ToFloat()])
    return Loader(root, pipeline=pipeline, batch_size=4, seed=3, workers=1, **options)


def test_pictures_of_a_batch_are_one_column_with_the_rows_that_they_are_of(tmp_path: Path) -> None:
    with loader(documents(tmp_path, [2, 0, 1, 3])) as batches:
        (batch,) = batches
        counts = [int(text) for text in batch["text"]]
        assert sorted(counts) == [0, 1, 2, 3]
        assert np.shape(batch["image"]) == (6, 3, 8, 8)
        assert batch.rows("image").tolist() == np.repeat(np.arange(4), counts).tolist()


def test_one_broken_picture_makes_its_document_a_broken_sample(tmp_path: Path) -> None:
    rows = [held(PICTURES[0], PICTURES[1][:60]), *(held(PICTURES[n]) for n in range(3))]
    table = pa.table({"images": pa.array(rows, pa.list_(MEDIUM)), "text": list("abcd")})
    write_all(tmp_path, {"x.arrow": as_stream(table)})
    with loader(tmp_path, on_corrupt="drop-from-batch") as batches:
        (batch,) = batches
        assert [replaced.key for replaced in batch.replaced] == ["x.arrow#0"]
        assert "image.1" in batch.replaced[0].reason
        assert sorted(batch["text"]) == ["b", "c", "d"]
        assert batch.rows("image").tolist() == [0, 1, 2]
    with pytest.raises(CorruptSampleError, match=r"image\.1"):
        list(loader(tmp_path, on_corrupt="raise"))
