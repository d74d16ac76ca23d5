from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import StorageError
from headrace.storage.local import LocalStorage
from headrace.storage.rangefile import RangeFile

CONTENT = bytes(n % 251 for n in range(5000))


class MemoryStorage:
    """Keeps one file in memory and notes what was read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def read(self, path: str, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return self.data[offset : offset + length]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, 700)),
        st.tuples(st.just("seek"), st.integers(0, 2500)),
        st.tuples(st.just("from_end"), st.integers(0, 500)),
        st.tuples(st.just("readline"), st.just(0)),
    ),
    max_size=20,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(steps, st.integers(1, 300))
def test_a_range_behaves_like_a_file_of_its_own(
    script: list[tuple[str, int]], buffer_bytes: int
) -> None:
    ours = RangeFile(MemoryStorage(CONTENT), "x", 1000, 2000, buffer_bytes=buffer_bytes)
    plain = io.BytesIO(CONTENT[1000:3000])
    for verb, number in script:
        for stream in (ours, plain):
            if verb == "seek":
                stream.seek(number)
            elif verb == "from_end":
                stream.seek(-number, io.SEEK_END)
        if verb == "read":
            assert ours.read(number) == plain.read(number)
        elif verb == "readline":
            assert ours.readline() == plain.readline()
        assert ours.tell() == plain.tell()


def test_only_the_part_that_is_asked_for_is_read() -> None:
    storage = MemoryStorage(bytes(10_000_000))
    stream = RangeFile(storage, "x", 0, 10_000_000, buffer_bytes=4096)
    stream.seek(9_000_000)
    stream.read(100)
    assert sum(length for _, length in storage.reads) <= 4096


def test_it_cannot_be_written_and_never_reads_outside_its_range() -> None:
    storage = MemoryStorage(CONTENT)
    stream = RangeFile(storage, "x", 1000, 100)
    assert not stream.writable()
    assert stream.read() == CONTENT[1000:1100]
    assert all(o >= 1000 and o + n <= 1100 for o, n in storage.reads)
    with pytest.raises(ValueError, match="before the start"):
        RangeFile(storage, "x", 0, 10).raw.seek(-1)


def test_an_error_of_the_storage_comes_through(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"short")
    with pytest.raises(StorageError, match="truncated"):
        RangeFile(LocalStorage(tmp_path), "x", 0, 100).read()
