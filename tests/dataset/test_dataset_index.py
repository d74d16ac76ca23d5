from __future__ import annotations

import os
import random
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import clip, json_lines, parquet, picture, shard, write_all
from msgspec import structs

from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.dataset import rows
from headrace.dataset.build import BuildProgress, build_index
from headrace.dataset.describe import describe
from headrace.dataset.index import Index, IndexMeta
from headrace.dataset.location import Member, SampleLocation
from headrace.dataset.media import KINDS
from headrace.dataset.rows import RowBuilder
from headrace.dataset.scan import ScanOptions
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileInfo

MIXED = {
    "cats/1.jpg": picture(8, 8),
    "dogs/2.png": picture(9, 9, "PNG"),
    "clips/a.mp4": clip(10),
    "s.tar": shard([("k.jpg", picture(8, 8)), ("k.cls", b"3")]),
    "t.jsonl": json_lines(["a", "b"]),
    "p.parquet": parquet({"text": ["x", "y", "z"]}),
}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
numbers = st.integers(0, 2**62)
members = st.builds(Member, field=texts, name=texts, offset=numbers, length=numbers)
small = st.none() | st.integers(0, 2**31 - 1)
locations = st.builds(
    SampleLocation,
    key=texts,
    kind=st.sampled_from(KINDS),
    container=st.sampled_from(("file", "tar", "parquet", "jsonl")),
    file=texts,
    file_size=numbers,
    file_version=texts,
    offset=numbers,
    length=numbers,
    members=st.lists(members, max_size=3).map(tuple),
    row=st.integers(0, 2**31 - 1),
    block=st.integers(-1, 2**31 - 1),
    label=small,
    width=small,
    height=small,
    duration_s=st.none() | st.floats(0, 1e6),
    frames=small,
    keyframes=st.lists(st.floats(0, 1e6), max_size=3).map(tuple),
    cost_s=st.floats(0, 1e6),
    broken=st.none() | texts,
)


def table_of(rows: list[SampleLocation]) -> pa.Table:
    builder = RowBuilder()
    for row in rows:
        builder.append(row)
    return builder.finish()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(locations, max_size=6))
def test_every_row_comes_back_as_it_was_put_in(rows: list[SampleLocation]) -> None:
    index = Index(table_of(rows), IndexMeta(classes=("a",)))
    again = Index.from_bytes(index.to_bytes())
    assert [again.location(n) for n in range(len(again))] == rows
    assert [again.kind(n) for n in range(len(again))] == [row.kind for row in rows]
    assert again.meta == index.meta


def test_rows_of_many_members_are_not_kept_as_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(field="x", name="x", offset=0, length=1)
    row = SampleLocation(
        key="k", kind="other", container="tar", file="f", file_size=9, file_version="1",
        offset=0, length=9, members=(member,) * 9,
    )  # fmt: skip
    monkeypatch.setattr(rows, "BATCH_MEMBERS", 20)
    assert table_of([row] * 10).column("key").num_chunks == 4
    monkeypatch.undo()
    assert table_of([row] * 10).column("key").num_chunks == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(locations, min_size=1, max_size=5), st.data())
def test_the_digest_does_not_depend_on_how_the_rows_are_chunked(
    rows: list[SampleLocation], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    joined = pa.concat_tables([table_of(rows[:cut]), table_of(rows[cut:])])
    sliced = table_of([rows[0], *rows]).slice(1)
    digest = Index(table_of(rows), IndexMeta()).digest
    assert Index(joined, IndexMeta()).digest == Index(sliced, IndexMeta()).digest == digest


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(locations, max_size=4, unique=True), st.lists(locations, max_size=4, unique=True))
def test_two_datasets_have_the_same_digest_only_if_their_places_are_the_same(
    one: list[SampleLocation], other: list[SampleLocation]
) -> None:
    def places(rows: list[SampleLocation]) -> list[object]:
        return [
            structs.replace(
                row,
                file_version="",
                width=None,
                height=None,
                duration_s=None,
                frames=None,
                keyframes=(),
                cost_s=0.0,
                broken=None,
            )
            for row in rows
        ]

    digests = [Index(table_of(rows), IndexMeta()).digest for rows in (one, other)]
    assert (digests[0] == digests[1]) == (places(one) == places(other))


def test_the_digest_survives_a_copy_and_any_number_of_threads(tmp_path: Path) -> None:
    write_all(tmp_path / "one", MIXED)
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    for path in (tmp_path / "two").rglob("*"):
        os.utime(path, (1, 1))
    one = build_index(LocalStorage(tmp_path / "one"), options=ScanOptions(workers=1))
    two = build_index(LocalStorage(tmp_path / "two"), options=ScanOptions(workers=7))
    assert one.digest == two.digest
    assert one.location(0).file_version != two.location(0).file_version


def test_the_digest_changes_with_a_sample(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, MIXED))
    before = build_index(storage).digest
    storage.write("t.jsonl", json_lines(["a", "c!"]))
    assert build_index(storage).digest != before


def test_an_index_is_found_below_its_root_and_in_another_folder(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path / "data", MIXED))
    index = build_index(storage)
    index.save(storage)
    (tmp_path / "elsewhere").mkdir()
    index.save(tmp_path / "elsewhere")
    loaded = [
        Index.load(storage),
        Index.load(f"file:{tmp_path}/data"),
        Index.load(tmp_path / "data"),
        Index.load(str(tmp_path / "elsewhere")),
    ]
    assert {each.digest for each in loaded} == {index.digest}
    assert loaded[0].table.equals(index.table)


def test_a_missing_index_says_how_to_build_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=f"headrace index {tmp_path}"):
        Index.load(tmp_path)


@pytest.mark.parametrize("data", [b"", b"nonsense", parquet({"text": ["a"]})])
def test_what_is_no_index_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".headrace-index").write_bytes(data)
    with pytest.raises(CorruptDataError, match="headrace index"):
        Index.load(tmp_path)


def test_an_index_with_a_damaged_byte_is_refused_or_the_same(tmp_path: Path) -> None:
    """Those of the footer are left out: Arrow ends the process over some."""
    index = build_index(LocalStorage(write_all(tmp_path, MIXED)))
    whole, draws = index.to_bytes(), random.Random(0)
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    refused = 0
    for at in draws.sample(range(4, footer), 200):
        damaged = whole[:at] + bytes([whole[at] ^ draws.randrange(1, 256)]) + whole[at + 1 :]
        try:
            assert Index.from_bytes(damaged).table.equals(index.table)
        except CorruptDataError:
            refused += 1
    assert refused > 100


def test_an_index_whose_columns_were_renamed_is_refused() -> None:
    whole = Index(table_of([]), IndexMeta()).to_bytes()
    with pytest.raises(CorruptDataError, match="damaged"):
        Index.from_bytes(whole.replace(b"cost_s", b"cast_s"))


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    index = Index(table_of([]), IndexMeta(schema_version=99, digest="x"))
    with pytest.raises(CorruptDataError, match="version 99"):
        Index.from_bytes(index.to_bytes())


def test_a_sample_that_is_not_there_is_the_callers_error(tmp_path: Path) -> None:
    index = build_index(LocalStorage(write_all(tmp_path, MIXED)))
    for sample in (-1, len(index)):
        with pytest.raises(CallerError, match="size of this index"):
            index.location(sample)
        with pytest.raises(CallerError, match="size of this index"):
            index.kind(sample)


class WatchedStorage(LocalStorage):
    """Remembers which files were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.seen: set[str] = set()

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.seen.add(path)
        return super().read(path, offset, length)


def rebuilt(root: Path, previous: Index, **options: str) -> tuple[Index, set[str]]:
    storage = WatchedStorage(root)
    return build_index(storage, previous=previous, options=ScanOptions(**options)), storage.seen


def test_nothing_is_read_again_while_nothing_changed(tmp_path: Path) -> None:
    index = build_index(LocalStorage(write_all(tmp_path, MIXED)))
    again, seen = rebuilt(tmp_path, Index.from_bytes(index.to_bytes()))
    assert seen == set()
    assert again.table.equals(index.table)
    assert again.meta == index.meta


def test_only_what_is_new_or_changed_is_read_again(tmp_path: Path) -> None:
    index = build_index(LocalStorage(write_all(tmp_path, MIXED)))
    write_all(tmp_path, {"cats/0.jpg": picture(10, 10), "t.jsonl": json_lines(["other"])})
    (tmp_path / "p.parquet").unlink()
    again, seen = rebuilt(tmp_path, index)
    assert seen == {"cats/0.jpg", "t.jsonl"}
    fresh = build_index(LocalStorage(tmp_path))
    assert again.table.equals(fresh.table)
    assert again.digest == fresh.digest


def test_a_new_class_renumbers_the_files_that_were_kept(tmp_path: Path) -> None:
    index = build_index(LocalStorage(write_all(tmp_path, {"dog/1.jpg": picture(8, 8)})))
    write_all(tmp_path, {"ant/1.jpg": picture(8, 8)})
    again, seen = rebuilt(tmp_path, index)
    assert seen == {"ant/1.jpg"}
    assert [again.location(n).label for n in range(2)] == [0, 1]
    assert again.classes == ("ant", "dog")


def test_what_was_broken_is_tried_again(tmp_path: Path) -> None:
    files = {"a.jpg": b"broken", "b.parquet": b"broken" * 9, "c.jpg": picture(8, 8)}
    index = build_index(LocalStorage(write_all(tmp_path, files)))
    _, seen = rebuilt(tmp_path, index)
    assert seen == {"a.jpg", "b.parquet"}


def test_another_text_field_means_another_scan(tmp_path: Path) -> None:
    index = build_index(LocalStorage(write_all(tmp_path, MIXED)))
    _, seen = rebuilt(tmp_path, index, text_field="body")
    assert "t.jsonl" in seen


def test_progress_is_told_up_to_the_end(tmp_path: Path) -> None:
    seen: list[BuildProgress] = []
    storage = LocalStorage(write_all(tmp_path, MIXED))
    index = build_index(storage, on_progress=seen.append)
    last = seen[-1]
    assert (last.files_done, last.samples) == (last.files_total, len(index)) == (6, len(index))
    assert last.bytes_done == last.bytes_total == sum(map(len, MIXED.values()))
    assert [p.files_done for p in seen] == sorted(p.files_done for p in seen)


def test_an_interrupted_build_leaves_the_old_index_and_no_thread(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, MIXED))
    old = build_index(storage)
    old.save(storage)

    def interrupt(progress: BuildProgress) -> None:
        if progress.files_done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(storage, on_progress=interrupt)
    assert Index.load(storage).digest == old.digest
    assert not any("headrace-index" in thread.name for thread in threading.enumerate())


def test_files_are_given_once_each_also_those_with_problems_only(tmp_path: Path) -> None:
    write_all(tmp_path, {**MIXED, "bad.parquet": b"broken"})
    storage = LocalStorage(tmp_path)
    index = build_index(storage)
    assert sorted(index.files(), key=lambda file: file.path) == list(storage.list())
    assert all(isinstance(file, FileInfo) for file in index.files())


def test_a_dataset_of_which_nothing_can_be_read_has_an_index_that_says_so(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"a.parquet": b"broken", "b.tar": b"broken" * 200}))
    index = build_index(storage)
    index.save(storage)
    again = Index.load(storage)
    assert (len(again), len(again.kinds), again.digest) == (0, 0, index.digest)
    assert [problem.file for problem in again.problems] == ["a.parquet", "b.tar"]
    assert describe(again).samples == 0
    assert len(build_index(storage, previous=again)) == 0
