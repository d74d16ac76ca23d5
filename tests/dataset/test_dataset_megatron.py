from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from format_writers import gpt_windows, megatron, write_tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.main import run
from headrace.core.errors import ConfigError, CorruptDataError, NotFoundError
from headrace.core.record import Record
from headrace.dataset import windows
from headrace.dataset.build import build_index
from headrace.dataset.describe import compare_files
from headrace.dataset.index import Index
from headrace.dataset.listing import list_dataset
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.dataset.scan import ScanOptions
from headrace.dataset.tokenindex import TokenIndex, read_token_index
from headrace.storage.local import LocalStorage

DOCUMENTS = [[range(5)], [range(10, 13), range(20, 24)], [], [[]], [range(30, 59)]]


def indexed(root: Path, **options: Any) -> Index:
    return build_index(LocalStorage(root), options=ScanOptions(**options))


def records(root: Path, index: Index) -> list[Record]:
    reader = SampleReader(LocalStorage(root))
    places = [index.location(n) for n in range(len(index))]
    return [decode_fields(place, reader.read_raw(place)) for place in places]


def tokens(found: list[Record]) -> list[list[int]]:
    return [record["tokens"].tolist() for record in found]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dtype", "read_as"),
    [
        (np.uint8, np.int32),
        (np.int8, np.int32),
        (np.int16, np.int32),
        (np.uint16, np.int32),
        (np.int32, np.int32),
        (np.int64, np.int64),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ],
)
def test_documents_of_every_type_come_back(tmp_path: Path, dtype: Any, read_as: Any) -> None:
    write_tokens(tmp_path / "x", DOCUMENTS, dtype)
    index = indexed(tmp_path)
    found = records(tmp_path, index)
    assert tokens(found) == [[*range(5)], [*range(10, 13), *range(20, 24)], [*range(30, 59)]]
    assert {record["tokens"].dtype for record in found} == {np.dtype(read_as)}  # type: ignore[union-attr]
    assert [record["documents"].tolist() for record in found] == [[5], [7], [29]]  # type: ignore[union-attr]
    assert (index.location(1).kind, index.location(1).key) == ("text", "x.bin#1")
    assert index.problems == ()


def test_large_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x", [[[2**40, -1]]], np.int64)
    write_tokens(tmp_path / "y", [[np.array([65535, 0], np.uint16)]], np.uint16)
    assert tokens(records(tmp_path, indexed(tmp_path))) == [[2**40, -1], [65535, 0]]


def test_modes_of_multimodal_files_are_passed_over(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x", DOCUMENTS, np.int32, multimodal=True)
    assert len(indexed(tmp_path)) == 3


rows_of_documents = st.lists(
    st.lists(st.integers(0, 9), max_size=3).map(
        lambda lengths: [list(range(100, 100 + length)) for length in lengths]
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(documents=rows_of_documents, sequence=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_windows_are_those_of_megatrons_own_dataset(
    documents: list[Any],
    sequence: int,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    count = sum(len(sequence) for document in documents for sequence in document)
    if count <= sequence:
        return
    root = tmp_path_factory.mktemp("tokens")
    prefix = write_tokens(root / "x", documents, np.uint16)
    index = indexed(root, window=sequence + 1, document_seed=seed)
    assert tokens(records(root, index)) == gpt_windows(prefix, sequence, seed)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(documents=rows_of_documents, sequence=st.integers(1, 12))
def test_without_a_seed_windows_are_cut_as_megatron_does_from_documents_in_file_order(
    documents: list[Any],
    sequence: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    flat = [token for document in documents for part in document for token in part]
    root = tmp_path_factory.mktemp("tokens")
    write_tokens(root / "x", documents, np.int32)
    if len(flat) <= sequence:
        with pytest.raises(NotFoundError):
            indexed(root, window=sequence + 1)
        return
    found = records(root, indexed(root, window=sequence + 1))
    lengths = np.array([len(part) for doc in documents for part in doc], np.int32)
    order = np.arange(lengths.size, dtype=np.int32)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    with megatron() as module:
        cut = module("helpers_cpp").build_sample_idx_int32(
            lengths, order, sequence, 1, len(flat), True, 1
        )
    begins = [int(starts[place]) + int(offset) for place, offset in cut]
    assert tokens(found) == [flat[a : b + 1] for a, b in pairwise(begins)]
    ends = np.cumsum([sum(map(len, document)) for document in documents])
    for record, begin in zip(found, begins, strict=False):
        whose = np.searchsorted(ends, np.arange(begin, begin + sequence + 1), side="right")
        assert record["documents"].tolist() == np.unique(whose, return_counts=True)[1].tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", [None, 3])
def test_how_many_windows_are_cut_at_once_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    write_tokens(tmp_path / "x", [[range(n % 7)] for n in range(60)], np.int16)
    whole = indexed(tmp_path, window=9, document_seed=seed)
    for windows_at_once, parts_at_once in ((3, 1000), (1000, 1), (5, 11)):
        monkeypatch.setattr(windows, "WINDOWS_AT_ONCE", windows_at_once)
        monkeypatch.setattr(windows, "PARTS_AT_ONCE", parts_at_once)
        again = indexed(tmp_path, window=9, document_seed=seed)
        assert again.table.equals(whole.table) and again.digest == whole.digest


def test_another_window_or_seed_is_another_dataset(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x", DOCUMENTS, np.int16)
    chosen: list[dict[str, int]] = [{}, {"window": 5}, {"window": 6}]
    chosen += [{"window": 5, "document_seed": seed} for seed in (1, 2)]
    indexes = [indexed(tmp_path, **options) for options in chosen]
    assert len({index.digest for index in indexes}) == 5
    for index, options in zip(indexes, chosen, strict=True):
        again = build_index(
            LocalStorage(tmp_path), options=ScanOptions(**options), previous=indexes[1]
        )
        assert (again.digest, again.meta) == (index.digest, index.meta)
        assert (again.meta.window, again.meta.document_seed) == (
            options.get("window"),
            options.get("document_seed"),
        )


def test_another_index_of_the_same_tokens_is_noticed(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x", [[range(6)]], np.int16)
    first = indexed(tmp_path)
    write_tokens(tmp_path / "y", [[range(3)], [range(3, 6)]], np.int16)
    (tmp_path / "y.idx").rename(tmp_path / "x.idx")
    (tmp_path / "y.bin").unlink()
    storage = LocalStorage(tmp_path)
    assert compare_files(first, list_dataset(storage)).changed == ("x.bin",)
    again = build_index(storage, previous=first)
    assert (len(first), len(again)) == (1, 2)
    assert not compare_files(again, list_dataset(storage))


def test_a_bin_without_an_index_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    (tmp_path / "mnist.idx").write_bytes(b"\0\0\x08\x01")
    with pytest.raises(NotFoundError, match=r"1 x \.bin, 1 x \.idx"):
        indexed(tmp_path)


def tntidx(lengths: list[int], documents: list[int], size: int = 2) -> bytes:
    count = len(lengths)
    head = struct.pack("<8sQQQQQQ", b"TNTIDX\0\0", 1, 8, size, count, count, len(documents))
    dims, offsets = range(count + 1), np.concatenate(([0], np.cumsum(lengths)))
    return head + b"".join(
        np.array(a, "<i8").tobytes() for a in (dims, offsets, lengths, documents)
    )


def test_the_older_index_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(np.arange(9, dtype="<u2").tobytes())
    (tmp_path / "x.idx").write_bytes(tntidx([2, 3, 4], [0, 2, 3]))
    assert tokens(records(tmp_path, indexed(tmp_path))) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
    assert tokens(records(tmp_path, indexed(tmp_path, window=5))) == [
        [0, 1, 2, 3, 4],
        [4, 5, 6, 7, 8],
    ]


def mmididx(lengths: list[int], pointers: list[int], documents: list[int], code: int = 8) -> bytes:
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, len(lengths), len(documents))
    parts = ((lengths, "<i4"), (pointers, "<i8"), (documents, "<i8"))
    return head + b"".join(np.array(part, kind).tobytes() for part, kind in parts)


GOOD = ([2, 3], [0, 4], [0, 1, 2])


def test_sequences_may_lie_anywhere_in_their_file() -> None:
    index = read_token_index(mmididx([2, 3], [6, 0], [0, 1, 2]), 10)
    (spans,) = windows.cut_windows(index, 5, None)
    assert (spans.offsets.tolist(), spans.lengths.tolist()) == ([6, 0], [4, 6])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not one of Megatron's"),
        (b"x" * 100, "not one of Megatron's"),
        (mmididx(*GOOD)[:30], "inside its head"),
        (mmididx(*GOOD)[:-1], "counts"),
        (mmididx(*GOOD) + bytes(9), "counts"),
        (mmididx(*GOOD, code=99), "type 99"),
        (mmididx(*GOOD).replace(struct.pack("<Q", 1), struct.pack("<Q", 2), 1), "version 2"),
        (struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, 2**63, 2**63), "counts"),
        (mmididx([2, 4], [0, 4], [0, 1, 2]), "outside"),
        (mmididx([2, -1], [0, 4], [0, 1, 2]), "outside"),
        (mmididx([2, 3], [0, -4], [0, 1, 2]), "outside"),
        (mmididx([2, 3], [0, 2**63 - 2], [0, 1, 2]), "outside"),
        (mmididx([2, 2], [0, 4], [0, 1, 2]), "another type"),
        (mmididx([], [], [0]), "another type"),
        (mmididx([2, 3], [0, 4], [0, 1]), "into documents"),
        (mmididx([2, 3], [0, 4], [1, 2]), "into documents"),
        (mmididx([2, 3], [0, 4], [0, 9, 2]), "into documents"),
        (mmididx([2, 3], [0, 4], []), "into documents"),
        (tntidx([2, 3], [0, 2])[:-3], "counts"),
        (tntidx([2, 3], [0, 2], size=4), "bytes a token"),
        (tntidx([2, -3], [0, 2]), "outside"),
    ],
)
def test_an_index_that_lies_is_refused_and_named(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        read_token_index(data, 10)
    (tmp_path / "x.bin").write_bytes(bytes(10))
    (tmp_path / "x.idx").write_bytes(data)
    (problem,) = indexed(tmp_path).problems
    assert problem.file == "x.bin" and message in problem.reason


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 12), max_size=12),
    make=st.sampled_from([mmididx, tntidx]),
)
def test_no_index_makes_a_part_lie_outside_of_its_file(
    numbers: list[int], make: Callable[..., bytes]
) -> None:
    third = len(numbers) // 3
    lengths = [n % 2**31 for n in numbers[:third]]
    parts = (lengths, numbers[third : 2 * third], [0, *numbers[2 * third :], third])
    try:
        index = read_token_index(mmididx(*parts) if make is mmididx else tntidx(*parts[::2]), 20)
    except (CorruptDataError, OverflowError):
        return
    for spans in (*windows.cut_windows(index, 3, 1), *windows.cut_documents(index)):
        assert (spans.offsets >= 0).all() and (spans.lengths > 0).all()
        assert (spans.offsets + spans.lengths <= 20).all()


def test_many_empty_sequences_between_tokens_cost_one_part() -> None:
    count = 100_000
    lengths = np.zeros(count, np.int64)
    lengths[[0, -1]] = 3
    index = TokenIndex("int16", lengths, np.zeros(count, np.int64), np.array([0, count]))
    (spans,) = windows.cut_windows(index, 6, None)
    assert spans.counts.tolist() == [2]


@pytest.mark.parametrize(
    "options",
    [{"window": 1}, {"window": 1 << 70}, {"document_seed": 1}, {"window": 4, "document_seed": -1}],
)
def test_windows_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        ScanOptions(**options)  # type: ignore[arg-type]


def test_the_command_takes_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tokens(tmp_path / "x", DOCUMENTS, np.int16)
    call = ["index", str(tmp_path), "--json", "-", "--window", "5", "--document-seed", "7"]
    assert run(call) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 10
    assert (Index.load(tmp_path).meta.window, Index.load(tmp_path).meta.document_seed) == (5, 7)
    assert run(["index", str(tmp_path), "--window", "1"]) == 2
    (tmp_path / "x.idx").unlink()
    assert run(["index", str(tmp_path), "--window", "5"]) == 2
    assert "no .bin has an .idx" in capsys.readouterr().err
