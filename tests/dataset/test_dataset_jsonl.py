from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import psutil
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_media import json_lines, write_all

from headrace.core.errors import CorruptSampleError, StorageError
from headrace.dataset import jsonl
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.reader import ReaderLimits, SampleReader, decode_fields
from headrace.dataset.scan import ScanOptions
from headrace.dataset.side import SideFiles
from headrace.dataset.zstdframes import FrameWalker
from headrace.storage.local import LocalStorage


def gzipped(data: bytes, members: int = 1) -> bytes:
    size = -(-len(data) // members)
    return b"".join(gzip.compress(data[n : n + size]) for n in range(0, len(data), size))


def zstandard_frames(data: bytes, size: int) -> bytes:
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    parts = [zstandard.compress(data[n : n + size]) for n in range(0, len(data), size)]
    return skippable + skippable.join(parts)


def opened(root: Path, name: str, data: bytes) -> tuple[Index, SampleReader]:
    storage = LocalStorage(write_all(root, {name: data}))
    return build_index(storage), SampleReader(storage)


def texts_of(index: Index, reader: SampleReader, order: list[int]) -> list[object]:
    locations = [index.location(n) for n in order]
    return [decode_fields(at, reader.read_raw(at))["text"] for at in locations]


TEXTS = [f"line {n} " + "äß " * (n * 7 % 90) for n in range(3000)]
FORMS = {
    "x.jsonl": lambda data: data,
    "x.jsonl.gz": gzipped,
    "many.jsonl.gz": lambda data: gzipped(data, members=7),
    "c4.json.gz": gzipped,
    "x.jsonl.zst": lambda data: zstandard_frames(data, 50_000),
    "one.jsonl.zst": zstandard.compress,
}


@pytest.mark.parametrize("name", FORMS)
def test_any_line_is_read_back_in_any_order(tmp_path: Path, name: str) -> None:
    index, reader = opened(tmp_path, name, FORMS[name](json_lines(TEXTS)))
    assert len(index) == len(TEXTS)
    order = random.Random(0).sample(range(len(TEXTS)), 200)
    assert texts_of(index, reader, order) == [TEXTS[n] for n in order]


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst"])
def test_without_the_side_file_reading_is_slower_and_the_same(tmp_path: Path, name: str) -> None:
    index, _ = opened(tmp_path, name, FORMS[name](json_lines(TEXTS)))
    storage = LocalStorage(tmp_path)
    for info in list(storage.list(".headrace")):
        storage.delete(info.path)
    order = [2900, 3, 1500]
    assert texts_of(index, SampleReader(storage), order) == [TEXTS[n] for n in order]


def test_a_gzip_record_is_read_by_range(tmp_path: Path) -> None:
    rng = random.Random(0)
    texts = [rng.randbytes(3000).hex() for _ in range(1500)]
    index, _ = opened(tmp_path, "x.jsonl.gz", gzipped(json_lines(texts)))
    storage = ByteCountingStorage(tmp_path)
    reader = SampleReader(storage)
    assert texts_of(index, reader, [1400]) == [texts[1400]]
    assert storage.bytes < (tmp_path / "x.jsonl.gz").stat().st_size / 3


class ByteCountingStorage(LocalStorage):
    bytes = 0

    def read(self, path, offset=0, length=None):  # type: ignore[no-untyped-def]
        data = super().read(path, offset, length)
        self.bytes += len(data) * (".headrace" not in path)
        return data


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst"])
def test_broken_lines_are_broken_rows(tmp_path: Path, name: str) -> None:
    good, bad = b'{"text": "good"}', [b"\0\0", b'{"other": 1}', b"[1]", b'{"text": "cut', b"\xff"]
    index, reader = opened(tmp_path, name, FORMS[name](b"\r\n".join([good, b"", *bad, good])))
    reasons = [index.location(n).broken for n in range(len(index))]
    assert [n for n, reason in enumerate(reasons) if reason is None] == [0, 6]
    assert "other; name another by --text-field" in str(reasons[2])
    assert texts_of(index, reader, [0, 6]) == ["good", "good"]
    for n in range(1, 6):
        with pytest.raises(CorruptSampleError, match=f"{name}#{n + 1}"):
            reader.read_raw(index.location(n))


def test_the_text_field_is_configurable_and_kept_in_the_index(tmp_path: Path) -> None:
    storage = LocalStorage(write_all(tmp_path, {"x.jsonl": json_lines(["a"], field="the body")}))
    index = build_index(storage, options=ScanOptions(text_field="the body"))
    assert index.meta.text_field == "the body"
    assert texts_of(index, SampleReader(storage), [0]) == ["a"]


@pytest.mark.parametrize("name", ["x.jsonl.gz", "many.jsonl.gz", "x.jsonl.zst"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(share=st.floats(0.01, 0.99))
def test_of_a_truncated_file_the_whole_lines_before_the_cut_are_kept(
    tmp_path_factory: pytest.TempPathFactory, name: str, share: float
) -> None:
    data = FORMS[name](json_lines(TEXTS))
    index, reader = opened(tmp_path_factory.mktemp("cut"), name, data[: int(len(data) * share)])
    good = [n for n in range(len(index)) if index.location(n).broken is None]
    assert texts_of(index, reader, good[-1:] + good[:1]) == [TEXTS[n] for n in good[-1:] + good[:1]]
    assert len(index) - len(good) <= 1
    if len(good) < len(TEXTS):
        assert index.problems or len(index) > len(good)


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst"])
def test_the_lines_before_a_cut_are_read_without_a_side_file_too(tmp_path: Path, name: str) -> None:
    data = FORMS[name](json_lines(TEXTS))
    index, _ = opened(tmp_path, name, data[: len(data) // 2])
    storage = LocalStorage(tmp_path)
    reader = SampleReader(storage, side=SideFiles(storage, ".nowhere"))
    assert texts_of(index, reader, [700, 2]) == [TEXTS[700], TEXTS[2]]


class Failing(LocalStorage):
    """Fails once, at the read that is asked for."""

    reads_left = -1

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.reads_left -= 1
        if self.reads_left == 0:
            raise StorageError("the mount is gone")
        return super().read(path, offset, length)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst"])
@pytest.mark.parametrize("side", [".headrace", ".nowhere"])
def test_a_failure_of_the_storage_is_never_taken_for_a_damaged_file(
    tmp_path: Path, name: str, side: str
) -> None:
    texts = [random.Random(n).randbytes(500).hex() for n in range(3000)]
    index, _ = opened(tmp_path, name, FORMS[name](json_lines(texts)))
    storage = Failing(tmp_path)
    for number in range(1, 100):
        reader = SampleReader(storage, side=SideFiles(storage, side))
        storage.reads_left = number
        try:
            texts_of(index, reader, [2000])
        except StorageError:
            assert texts_of(index, reader, [2000]) == [texts[2000]]
            continue
        break
    assert 1 < number < 99


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst"])
def test_a_damaged_file_is_a_problem_and_not_a_stop(tmp_path: Path, name: str) -> None:
    data = bytearray(FORMS[name](json_lines(TEXTS)))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    index, _ = opened(tmp_path, name, bytes(data))
    assert 0 < len(index) < len(TEXTS)
    assert index.problems[0].file == name


def test_one_large_frame_is_readable_and_reported_as_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "SLOW_FRAME_BYTES", 10_000)
    index, _ = opened(tmp_path, "x.jsonl.zst", zstandard.compress(json_lines(TEXTS)))
    assert index.problems[0].severity == "slow"
    assert "compress in parts" in index.problems[0].reason
    reader = SampleReader(LocalStorage(tmp_path), limits=ReaderLimits(frame_bytes=1000))
    assert texts_of(index, reader, [2500, 10]) == [TEXTS[2500], TEXTS[10]]
    assert reader.statistics().frames.bytes == 0


def test_a_line_that_never_ends_is_one_broken_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES", 1000)
    data = json_lines(["a"]) + b"x" * 5000 + b"\n" + json_lines(["b"])
    index, reader = opened(tmp_path, "x.jsonl", data)
    assert "longer than" in str(index.location(1).broken)
    assert texts_of(index, reader, [0, 2]) == ["a", "b"]


def test_a_frame_that_inflates_without_measure_is_decompressed_in_pieces() -> None:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    nothing = bytes(1 << 24)
    bomb = b"".join(compressor.compress(nothing) for _ in range(30)) + compressor.flush()
    before = psutil.Process().memory_info().rss
    walker = FrameWalker(lambda: io.BytesIO(bomb))
    assert walker.read(1) == b"\0"
    assert psutil.Process().memory_info().rss - before < 200 << 20, "it holds 480 MiB"


def test_a_side_file_of_another_version_is_not_used(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    side, file = SideFiles(storage), storage.write("x", b"12345")
    side.put(file, b"derived")
    assert side.get(file) == b"derived"
    assert side.get(storage.write("x", b"54321")) is None


def test_side_files_go_beside_an_index_that_lies_elsewhere(tmp_path: Path) -> None:
    root = write_all(tmp_path / "root", {"x.jsonl.gz": gzipped(json_lines(TEXTS))})
    (tmp_path / "c4").mkdir()
    storage, side = LocalStorage(root), SideFiles(LocalStorage(tmp_path / "c4"))
    index = build_index(storage, side=side)
    assert [path.name for path in root.iterdir()] == ["x.jsonl.gz"]
    assert len(list((tmp_path / "c4/.headrace").iterdir())) == 1
    assert texts_of(index, SampleReader(storage, side=side), [2000]) == [TEXTS[2000]]


def test_a_side_file_that_cannot_be_written_stops_the_build(tmp_path: Path) -> None:
    root = write_all(tmp_path, {"x.jsonl.gz": gzipped(json_lines(["a"])), ".headrace": b"a file"})
    with pytest.raises(StorageError, match="cannot write"):
        build_index(LocalStorage(root))


def test_a_line_that_is_nested_without_end_is_broken(tmp_path: Path) -> None:
    line = b'{"x": ' + b"[" * 100_000 + b"\n"
    index = build_index(LocalStorage(write_all(tmp_path, {"x.jsonl": line + b'{"text": "a"}\n'})))
    assert [index.location(n).broken is None for n in range(2)] == [False, True]
