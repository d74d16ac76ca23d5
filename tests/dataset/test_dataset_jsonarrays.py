"""One JSON array of records is read element by element, as lines are."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from made_up_media import picture, write_all

from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.dataset import jsonarray, jsonl
from headrace.dataset.build import build_index
from headrace.dataset.describe import compare_files
from headrace.dataset.index import Index
from headrace.dataset.jsonarray import elements
from headrace.dataset.listing import list_dataset
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.storage.local import LocalStorage

TEXTS = [f'{n} "quoted" \\ {{[,]}} äß\n' * (n % 7) for n in range(300)]
RECORDS = [{"n": [n, {"in": {}}], "text": text} for n, text in enumerate(TEXTS)]


def opened(root: Path) -> tuple[Index, SampleReader]:
    storage = LocalStorage(root)
    return build_index(storage), SampleReader(storage)


def texts(root: Path) -> list[object]:
    index, reader = opened(root)
    found = map(index.location, range(len(index)))
    return [decode_fields(at, reader.read_raw(at))["text"] for at in found]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("name", "compressed"),
    [
        ("x.json", bytes),
        ("x.jsonl", bytes),
        ("x.json.gz", gzip.compress),
        ("x.json.zst", zstandard.compress),
    ],
)
def test_each_element_of_an_array_is_a_sample(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    compressed: Callable[[bytes], bytes],
    indent: int | None,
) -> None:
    monkeypatch.setattr(jsonarray, "CHUNK_BYTES", 100)
    data = json.dumps(RECORDS, indent=indent, ensure_ascii=False).encode()
    write_all(tmp_path, {name: compressed(data + b"\n")})
    assert texts(tmp_path) == TEXTS
    index, _ = opened(tmp_path)
    assert index.location(7).key == f"{name}#7"
    assert not index.problems


def test_an_element_is_read_by_its_range(tmp_path: Path) -> None:
    write_all(tmp_path, {"x.json": json.dumps(RECORDS).encode()})
    index, _ = opened(tmp_path)
    at = index.location(33)
    whole = (tmp_path / "x.json").read_bytes()
    assert json.loads(whole[at.offset : at.offset + at.length]) == RECORDS[33]


def test_conversations_of_llava_name_pictures_beside_them(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}]
    records = [{"id": "0", "image": "coco/a.png", "conversations": turns}]
    write_all(tmp_path, {"coco/a.png": picture(8, 6), "x.json": json.dumps(records).encode()})
    index, reader = opened(tmp_path)
    record = decode_fields(index.location(0), reader.read_raw(index.location(0)))
    assert len(index) == 1
    assert (record["text"], record["image"]) == ("<image>\nWhat?\nA cat.", picture(8, 6))
    assert json.loads(str(record["json"])) == turns


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'[{"text": "a"}, {"text": "b"', "it ends before its array does"),
        (b'[{"text": "a"}, {"text": "b', "it ends before its array does"),
        (b'[{"text": "a"},', "it ends before its array does"),
        (b'[{"text": "a"}, 7]', "byte 16 begins no JSON object"),
        (b'[{"text": "a"}] [', "byte 16 lies behind the end of its array"),
        (b'[{"text": "a"}, {"text": "' + b"x" * 3000 + b'"}]', "longer than"),
    ],
)
def test_elements_before_the_damage_are_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, said: str
) -> None:
    monkeypatch.setattr(jsonarray, "CHUNK_BYTES", 10)
    monkeypatch.setattr(jsonl, "LINE_BYTES", 1000)
    write_all(tmp_path, {"x.json": data})
    assert texts(tmp_path) == ["a"]
    (problem,) = opened(tmp_path)[0].problems
    assert said in problem.reason


def test_an_element_without_the_text_is_a_broken_sample(tmp_path: Path) -> None:
    write_all(tmp_path, {"x.json": b'[{"other": 1}, {"text": "b"}, {"text": }]'})
    index, _ = opened(tmp_path)
    assert [index.location(n).broken is None for n in range(3)] == [False, True, False]
    assert "name another by --text-field" in str(index.location(0).broken)


@pytest.mark.parametrize("data", [b'{"a": [{}]}', b"[1, 2]", b"[[{}]]", b"[]", b"", b"\xff[{"])
def test_json_that_is_no_array_of_records_is_left_alone(tmp_path: Path, data: bytes) -> None:
    write_all(tmp_path, {"a.png": picture(8, 6), "config.json": data})
    index, _ = opened(tmp_path)
    assert ([index.location(n).file for n in range(len(index))], index.problems) == (["a.png"], ())
    assert index.meta.ignored == {"json": 1}


@pytest.mark.parametrize(
    "record",
    [
        {"image_id": 42, "bbox": [1, 2, 3, 4]},
        {"image_id": 42, "caption": "A cat."},
        {"file_name": "a.png", "text": "A cat."},
        {"image": "a.png", "annotations": [{"label": "cat"}]},
    ],
)
def test_annotations_beside_samples_are_left_alone(
    tmp_path: Path, record: dict[str, object]
) -> None:
    annotations = json.dumps([record]).encode()
    write_all(tmp_path, {"a.png": picture(8, 6), "annotations.json": annotations})
    index, _ = opened(tmp_path)
    assert [index.location(n).file for n in range(len(index))] == ["a.png"]
    assert index.meta.ignored == {"json": 1}


def test_an_array_that_begins_with_a_broken_document_is_none_of_annotations(tmp_path: Path) -> None:
    records = [{"image": "a.png", "text": "<image> and <image>"}]
    write_all(tmp_path, {"a.png": picture(8, 6), "x.json": json.dumps(records).encode()})
    index, _ = opened(tmp_path)
    assert "x.json#0" in [
        index.location(n).key for n in range(len(index)) if index.location(n).broken
    ]


def test_json_beside_a_sample_is_what_is_said_of_it(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.png": picture(8, 6), "a.json": b'[{"text": "a"}]'})
    assert len(opened(tmp_path)[0]) == 1


def test_of_many_json_files_none_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonarray, "LOOKED_INTO", 2)
    write_all(tmp_path, {f"{n}.json": b'[{"text": "a"}]' for n in range(3)})
    with pytest.raises(NotFoundError, match=r"3 x \.json"):
        opened(tmp_path)


def test_an_array_that_did_not_change_is_taken_over_and_is_nothing_new(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.json": b'[{"text": "a"}]', "z.json": b"{}"}))
    index = build_index(storage)
    assert not compare_files(index, list_dataset(storage))
    reused: list[int] = []
    build_index(storage, previous=index, on_progress=lambda p: reused.append(p.files_reused))
    assert reused[-1] == 1


def test_elements_are_the_objects_of_any_array_in_chunks_of_any_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(4)
    for _ in range(60):
        monkeypatch.setattr(jsonarray, "CHUNK_BYTES", rng.randint(1, 40))
        values = [
            {rng.choice(['"', "\\", "{", "ä"]) * rng.randint(0, 4): rng.choice(RECORDS)["n"]}
            for _ in range(rng.randint(0, 5))
        ]
        data = json.dumps(values, indent=rng.choice([None, 1])).encode()
        found = list(elements(io.BytesIO(data), 1 << 20))
        assert [json.loads(content) for _, content in found] == values
        assert all(data[at : at + len(content)] == content for at, content in found)


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="byte 1 begins no JSON object"):
        list(elements(io.BytesIO(b"[[]]"), 100))
