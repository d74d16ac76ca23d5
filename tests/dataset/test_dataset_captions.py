"""Captions of pictures come from lists in their folders, and from texts beside them."""

from __future__ import annotations

import codecs
import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up_media import picture, write_all

from headrace.core.errors import CorruptDataError
from headrace.dataset.build import build_index
from headrace.dataset.captionlists import LINE_BYTES
from headrace.dataset.describe import compare_files
from headrace.dataset.index import Index, IndexMeta
from headrace.dataset.listing import list_dataset
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.dataset.scan import ScanOptions
from headrace.prepare.profiles import fields_of
from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage

PICTURE = picture(8, 8)
PAIRS = {"a.jpg": 'a, "quoted"\ncaption', "below/b.jpg": "ein Bär", "c.jpg": "third"}


def index_of(root: Path, *, text_field: str = "text", previous: Index | None = None) -> Index:
    options = ScanOptions(text_field=text_field)
    return build_index(LocalStorage(root), options=options, previous=previous)


def captions_of(index: Index) -> dict[str, str | None]:
    locations = map(index.location, range(len(index)))
    return {location.file: location.text for location in locations}


def reasons(index: Index) -> dict[str, str]:
    return {problem.file: problem.reason for problem in index.problems}


def as_csv(pairs: dict[str, str], column: str = "text") -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(
        [("file_name", "split", column), *((n, "train", t) for n, t in pairs.items())]
    )
    return text.getvalue().encode()


def as_json_lines(pairs: dict[str, str], column: str = "text") -> bytes:
    return b"".join(
        json.dumps({"file_name": n, "n": 1, column: t}).encode() + b"\n" for n, t in pairs.items()
    )


def as_parquet(pairs: dict[str, str], column: str = "text") -> bytes:
    target = io.BytesIO()
    pq.write_table(
        pa.table({"file_name": [*pairs], "n": range(len(pairs)), column: [*pairs.values()]}), target
    )
    return target.getvalue()


def as_tabbed(pairs: dict[str, str]) -> bytes:
    return "".join(f"{name}\t{text}\n" for name, text in pairs.items()).encode()


LISTS = {
    "metadata.csv": as_csv(PAIRS),
    "metadata.jsonl": as_json_lines(PAIRS),
    "metadata.parquet": as_parquet(PAIRS),
    "captions.txt": as_tabbed({**PAIRS, "a.jpg": "plain"}),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_gives_captions_to_files_in_its_folder_and_below(tmp_path: Path, name: str) -> None:
    files = {f"set/{path}": PICTURE for path in PAIRS}
    index = index_of(write_all(tmp_path, {**files, f"set/{name}": LISTS[name]}))
    wanted = {**PAIRS, **({"a.jpg": "plain"} if name == "captions.txt" else {})}
    assert captions_of(index) == {f"set/{path}": text for path, text in wanted.items()}
    assert index.problems == ()
    assert index.meta.ignored == {}
    assert {index.kind(n) for n in range(3)} == {"image"}


def test_a_caption_is_in_the_record_wherever_it_is_decoded(tmp_path: Path) -> None:
    write_all(tmp_path, {"1/a.jpg": PICTURE, "1/a.txt": b"a caption\n"})
    location = index_of(tmp_path).location(0)
    reader = SampleReader(LocalStorage(tmp_path))
    assert reader.open_record(location) == {"image": PICTURE, "label": 0, "text": "a caption"}
    assert decode_fields(location, reader.read_raw(location))["text"] == "a caption"
    assert set(reader.read_raw(location)) == {"image"}
    assert fields_of([index_of(tmp_path)]) == {"image": {"image", "label", "text"}}


def test_the_column_of_captions_is_named_or_the_first_of_text(tmp_path: Path) -> None:
    write_all(
        tmp_path, {"a.jpg": PICTURE, "metadata.csv": b"split,file_name,alt,caption\nx,a.jpg,y,z\n"}
    )
    assert captions_of(index_of(tmp_path)) == {"a.jpg": "z"}
    assert captions_of(index_of(tmp_path, text_field="alt")) == {"a.jpg": "y"}
    (tmp_path / "metadata.csv").write_bytes(b"file_name,alt\na.jpg,y\n")
    assert captions_of(index_of(tmp_path)) == {"a.jpg": "y"}


def test_the_nearest_list_counts_and_a_text_beside_the_file_comes_last(tmp_path: Path) -> None:
    files = {f"{path}.jpg": PICTURE for path in ("a", "b", "in/a", "in/b")}
    outer = as_csv({"a.jpg": "outer", "in/a.jpg": "outer", "in/b.jpg": "outer"})
    inner = as_tabbed({"a.jpg": "inner"})
    texts = {"a.txt": b"beside", "b.txt": b"beside"}
    write_all(tmp_path, {**files, "metadata.csv": outer, "in/captions.txt": inner, **texts})
    assert captions_of(index_of(tmp_path)) == {
        "a.jpg": "outer",
        "b.jpg": "beside",
        "in/a.jpg": "inner",
        "in/b.jpg": "outer",
    }


def test_what_is_wrong_with_a_list_is_named(tmp_path: Path) -> None:
    lines = b"a.jpg\tfirst\na.jpg\tsecond\n../up.jpg\tx\n/etc/passwd\tx\ngone.jpg\tx\nempty.jpg\t\n"
    files = dict.fromkeys(("a.jpg", "lone.jpg", "empty.jpg"), PICTURE)
    index = index_of(write_all(tmp_path, {**files, "captions.txt": lines}))
    assert captions_of(index) == {"a.jpg": "first", "empty.jpg": None, "lone.jpg": None}
    assert [problem.reason for problem in index.problems] == [
        "lines that name no media file of this dataset: 3, ../up.jpg for one",
        "files with several lines: 1, a.jpg for one; the first of each is taken",
        "files below that have no caption in it: 2, empty.jpg for one",
    ]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("metadata.csv", b'file_name,text\na.jpg,one\nb.jpg,"two', "unexpected end of data"),
        ("metadata.csv", b"file_name,text\na.jpg,one\nb.jpg,two,three\n", "line 3 has 3 fields"),
        ("metadata.csv", b"file_name,text\na.jpg,one\nb.jpg,\xff\n", "line 3 is not UTF-8"),
        (
            "metadata.csv",
            b"file_name,text\na.jpg,one\nb.jpg," + b"x" * LINE_BYTES,
            "line 3 is longer",
        ),
        ("metadata.csv", b"file_name,text\na.jpg,one\nb.jpg," + b"x" * 200_000, "field larger"),
        (
            "metadata.jsonl",
            b'{"file_name":"a.jpg","text":"one"}\n{"file_na\n',
            "line 2 is not a JSON",
        ),
        ("metadata.jsonl", b'{"file_name":"a.jpg","text":"one"}\n[]\n', "line 2 is not a JSON"),
        (
            "metadata.jsonl",
            b'{"file_name":"a.jpg","text":"one"}\n{"file_name":3}\n',
            "no string 'file",
        ),
        ("metadata.jsonl", b'{"file_name":"a.jpg","text":"one"}\n' + b"[" * 100_000, "line 2"),
        ("captions.txt", b"a.jpg\tone\nb.jpg two\n", "line 2 has no tab"),
    ],
)
def test_of_a_broken_list_what_comes_before_the_damage_is_taken(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    index = index_of(write_all(tmp_path, {"a.jpg": PICTURE, "b.jpg": PICTURE, name: data}))
    assert captions_of(index) == {"a.jpg": "one", "b.jpg": None}
    assert reason in index.problems[0].reason


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("metadata.csv", b"", "no column 'file_name'"),
        ("metadata.csv", b"name,text\na.jpg,x\n", "no column 'file_name', but: name, text"),
        ("metadata.csv", b"file_name\na.jpg\n", "no column of text"),
        ("metadata.parquet", b"PAR1 no PAR1", "not a Parquet file"),
        (
            "metadata.parquet",
            as_parquet({"a.jpg": "ascii"}).replace(b"ascii", b"a\xffcii"),
            "utf-8",
        ),
        ("metadata.parquet", as_parquet({}, "n2")[:-9], "not a Parquet file"),
    ],
)
def test_a_list_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    index = index_of(write_all(tmp_path, {"a.jpg": PICTURE, name: data}))
    assert len(index) == 1
    assert reason in index.problems[0].reason


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("metadata.csv", b"file_name,text\r\na.jpg,x\r\n"),
        ("metadata.jsonl", b'{"file_name":"a.jpg","text":"x"}\r\n'),
        ("captions.txt", b"a.jpg\tx\r\n"),
    ],
)
def test_a_byte_order_mark_does_no_harm(tmp_path: Path, name: str, data: bytes) -> None:
    write_all(tmp_path, {"a.jpg": PICTURE, name: codecs.BOM_UTF8 + data})
    assert captions_of(index_of(tmp_path)) == {"a.jpg": "x"}


def test_captions_that_are_categories_are_read(tmp_path: Path) -> None:
    names, texts = (pa.array(values).dictionary_encode() for values in (["a.jpg"], ["x"]))
    write_all(tmp_path, {"a.jpg": PICTURE})
    pq.write_table(pa.table({"file_name": names, "text": texts}), tmp_path / "metadata.parquet")
    assert captions_of(index_of(tmp_path)) == {"a.jpg": "x"}


def test_a_caption_in_parquet_has_the_same_limit(tmp_path: Path) -> None:
    data = as_parquet({"a.jpg": "x" * (LINE_BYTES + 1)})
    index = index_of(write_all(tmp_path, {"a.jpg": PICTURE, "metadata.parquet": data}))
    assert captions_of(index) == {"a.jpg": None}
    assert "longer than 1 MiB" in index.problems[0].reason


def test_a_sign_outside_of_unicode_does_no_harm(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.jpg": PICTURE})
    (tmp_path / "metadata.jsonl").write_bytes(b'{"file_name":"a.jpg","text":"\\ud800"}\n')
    assert list(reasons(index_of(tmp_path))) == ["metadata.jsonl"]


def test_texts_beside_files_that_are_no_captions_are_named(tmp_path: Path) -> None:
    files = dict.fromkeys(("a.jpg", "b.jpg", "c.jpg"), PICTURE)
    texts = {"a.txt": b"\xff\xfe", "b.txt": b"x" * (LINE_BYTES + 1), "c.txt": b"good", "d.txt": b""}
    index = index_of(write_all(tmp_path, {**files, **texts}))
    assert captions_of(index) == {"a.jpg": None, "b.jpg": None, "c.jpg": "good"}
    assert "not UTF-8" in reasons(index)["a.txt"]
    assert "longer than 1 MiB" in reasons(index)["b.txt"]
    assert index.meta.ignored == {"txt": 1}


def test_lists_without_media_files_are_files_as_any_other(tmp_path: Path) -> None:
    write_all(tmp_path, {"metadata.jsonl": b'{"text":"a line"}\n', "in/captions.txt": b"x"})
    index = index_of(tmp_path)
    assert (index.kind(0), index.location(0).container) == ("text", "jsonl")
    assert index.meta.ignored == {"txt": 1}


def test_captions_are_read_again_although_their_files_are_not(tmp_path: Path) -> None:
    write_all(
        tmp_path,
        {"a.jpg": PICTURE, "b.jpg": PICTURE, "metadata.csv": as_csv({"a.jpg": "x"}), "b.txt": b"y"},
    )
    first = index_of(tmp_path)
    storage: Storage = LocalStorage(tmp_path)
    assert not compare_files(first, list_dataset(storage))
    write_all(tmp_path, {"metadata.csv": as_csv({"a.jpg": "other"}), "b.txt": b"another"})
    stale = compare_files(first, list_dataset(storage))
    assert set(stale.changed) == {"metadata.csv", "*.txt"}
    assert (stale.gone, stale.new) == ((), ())
    again = index_of(tmp_path, previous=first)
    assert captions_of(again) == {"a.jpg": "other", "b.jpg": "another"}
    assert again.digest == index_of(tmp_path).digest != first.digest


class CaptionReads(LocalStorage):
    """Notes which files of captions are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read_of: set[str] = set()

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if not path.endswith(".jpg"):
            self.read_of.add(path)
        return super().read(path, offset, length)


@pytest.mark.parametrize(
    ("change", "read_of"),
    [
        ({}, set()),
        ({"a.jpg": picture(6, 6)}, set()),
        ({"b.txt": b"other"}, {"captions.txt", "b.txt"}),
        ({"captions.txt": b"a.jpg\tother\n"}, {"captions.txt", "b.txt"}),
        ({"in/captions.txt": b"c.jpg\tother\n"}, {"captions.txt", "in/captions.txt", "b.txt"}),
        ({"d.jpg": PICTURE, "d.txt": b"new"}, {"captions.txt", "b.txt", "d.txt"}),
    ],
)
def test_captions_are_only_read_again_where_they_or_the_files_are_others(
    tmp_path: Path, change: dict[str, bytes], read_of: set[str]
) -> None:
    media = {"a.jpg": PICTURE, "b.jpg": PICTURE, "in/c.jpg": PICTURE}
    lists = {"captions.txt": b"a.jpg\tx\nin/c.jpg\tz\n", "b.txt": b"y"}
    first = index_of(write_all(tmp_path, {**media, **lists}))
    assert not first.problems
    storage = CaptionReads(write_all(tmp_path, change))
    again = build_index(storage, previous=first)
    assert again.to_bytes() == index_of(tmp_path).to_bytes()
    assert storage.read_of == read_of


@pytest.mark.parametrize("gone", ["captions.txt", "b.txt", "in/c.jpg"])
def test_captions_are_read_again_where_files_are_gone(tmp_path: Path, gone: str) -> None:
    media = {"a.jpg": PICTURE, "b.jpg": PICTURE, "in/c.jpg": PICTURE}
    lists = {"captions.txt": b"a.jpg\tx\nin/c.jpg\tz\n", "b.txt": b"y"}
    first = index_of(write_all(tmp_path, {**media, **lists}))
    (tmp_path / gone).unlink()
    assert index_of(tmp_path, previous=first).to_bytes() == index_of(tmp_path).to_bytes()


def test_captions_of_which_something_is_wrong_are_read_again(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.jpg": PICTURE, "captions.txt": b"a.jpg\tx\nb.jpg\ty\n"})
    first = index_of(tmp_path)
    assert reasons(index_of(tmp_path, previous=first)) == reasons(first) != {}


def test_the_digest_covers_captions(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.jpg": PICTURE, "a.txt": b"x"})
    first = index_of(tmp_path)
    assert index_of(tmp_path).digest == first.digest
    (tmp_path / "a.txt").write_bytes(b"y")
    assert index_of(tmp_path).digest != first.digest


def test_an_index_of_before_captions_is_to_be_built_again(tmp_path: Path) -> None:
    old = Index(
        index_of(write_all(tmp_path, {"a.jpg": PICTURE})).table, IndexMeta(schema_version=1)
    )
    with pytest.raises(CorruptDataError, match=r"version 1.* reads 2; build it again"):
        Index.from_bytes(old.to_bytes())
