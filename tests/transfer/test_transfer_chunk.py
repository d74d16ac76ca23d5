"""One chunk: copied in pieces, verified, and told apart from one of another version."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from copies_for_tests import MEBIBYTE, Taken, stores, task_for

from headrace.core.digest import ContentDigest
from headrace.core.errors import (
    CorruptDataError,
    DeadlineError,
    NotFoundError,
    StaleError,
    StorageError,
)
from headrace.storage.hdfs import HdfsStorage
from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage
from headrace.transfer.chunk import ChunkTask, HeldChunk, copy_chunk

DATA = random.Random(7).randbytes(3 * MEBIBYTE + 17)
OTHER = random.Random(8).randbytes(3 * MEBIBYTE + 17)


@pytest.fixture
def both(tmp_path: Path) -> tuple[LocalStorage, LocalStorage]:
    return stores(tmp_path)


def digest_of(data: bytes) -> str:
    return ContentDigest(data).hexdigest()


@pytest.mark.parametrize("piece_bytes", [1000, MEBIBYTE, 64 * MEBIBYTE])
def test_a_chunk_is_copied_under_a_name_that_tells_its_digest(
    both: tuple[LocalStorage, LocalStorage], piece_bytes: int
) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a", offset=5, length=2 * MEBIBYTE)
    done = copy_chunk(task, source, destination, Taken(), piece_bytes=piece_bytes)
    wanted = DATA[5 : 5 + 2 * MEBIBYTE]
    assert (done.nbytes, done.digest, done.sent) == (len(wanted), digest_of(wanted), True)
    assert done.part == f"{task.staged}-{done.digest}"
    assert [info.path for info in destination.list()] == [done.part]
    assert destination.read(done.part) == wanted


def test_an_empty_file_is_a_chunk_too(both: tuple[LocalStorage, LocalStorage]) -> None:
    source, destination = both
    source.write("a", b"")
    done = copy_chunk(task_for(source, destination, "a"), source, destination, Taken())
    assert destination.read(done.part) == b""


def test_the_budget_is_asked_before_each_piece_is_read(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    taken = Taken()
    copy_chunk(task_for(source, destination, "a"), source, destination, taken, piece_bytes=MEBIBYTE)
    assert taken.pieces == [MEBIBYTE, MEBIBYTE, MEBIBYTE, 17]


def test_a_chunk_whose_digest_is_known_is_not_sent_twice(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a", digest=digest_of(DATA))
    first = copy_chunk(task, source, destination, Taken())
    taken = Taken()
    again = copy_chunk(task, source, destination, taken)
    assert (first.sent, again.sent, again.part, taken.pieces) == (True, False, first.part, [])


def test_bytes_that_the_destination_holds_are_not_sent(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    destination.write("earlier", b"12345" + DATA)
    held = HeldChunk(path="earlier", offset=5)
    task = task_for(source, destination, "a", digest=digest_of(DATA), held=held)
    taken = Taken()
    done = copy_chunk(task, source, destination, taken, piece_bytes=MEBIBYTE)
    assert (done.sent, taken.pieces, destination.read(done.part)) == (False, [], DATA)


@pytest.mark.parametrize("earlier", [b"", b"12345" + OTHER, None])
def test_bytes_that_are_no_longer_held_come_from_the_source(
    both: tuple[LocalStorage, LocalStorage], earlier: bytes | None
) -> None:
    source, destination = both
    source.write("a", DATA)
    if earlier is not None:
        destination.write("earlier", earlier)
    held = HeldChunk(path="earlier", offset=5)
    task = task_for(source, destination, "a", digest=digest_of(DATA), held=held)
    done = copy_chunk(task, source, destination, Taken(), piece_bytes=MEBIBYTE)
    assert done.sent
    assert destination.read(done.part) == DATA


def test_a_file_of_another_version_is_refused(both: tuple[LocalStorage, LocalStorage]) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a")
    source.write("a", OTHER)
    with pytest.raises(StaleError, match="was replaced"):
        copy_chunk(task, source, destination, Taken())
    assert list(destination.list()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda source: source.write("a", OTHER),
        lambda source: source.write("a", OTHER[:100]),
        lambda source: source.delete("a"),
    ],
    ids=["replaced", "truncated", "deleted"],
)
def test_a_file_that_changes_in_the_middle_leaves_nothing_behind(
    both: tuple[LocalStorage, LocalStorage], change: Callable[[Storage], object]
) -> None:
    source, destination = both
    source.write("a", DATA)
    pieces = 0

    def change_at_the_third(nbytes: int) -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 3:
            change(source)

    with pytest.raises((StaleError, NotFoundError)):
        copy_chunk(
            task_for(source, destination, "a"),
            source,
            destination,
            change_at_the_third,
            piece_bytes=MEBIBYTE,
        )
    assert list(destination.list()) == []


class Frozen(LocalStorage):
    """Answers no more after the first piece."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if offset:
            raise DeadlineError("no answer in 30 s")
        return super().read(path, offset, length)


def test_a_source_that_freezes_is_told_and_leaves_nothing_behind(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a")
    with pytest.raises(DeadlineError, match="no answer"):
        copy_chunk(task, Frozen(source.url), destination, Taken(), piece_bytes=MEBIBYTE)
    assert list(destination.list()) == []


def test_bytes_that_do_not_have_the_digest_are_refused(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a", digest=digest_of(OTHER))
    with pytest.raises(CorruptDataError, match="digest"):
        copy_chunk(task, source, destination, Taken(), piece_bytes=MEBIBYTE)
    assert list(destination.list()) == []


class Damaging(LocalStorage):
    """Flips a bit of whatever is read of a staged file."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, offset, length)
        return bytes([data[0] ^ 1]) + data[1:]


def test_a_copy_that_reads_back_differently_is_not_kept(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a", read_back=True)
    assert copy_chunk(task, source, destination, Taken()).sent
    damaging = Damaging(destination.url)
    with pytest.raises(CorruptDataError, match="check its disks"):
        copy_chunk(task, source, damaging, Taken())
    assert list(destination.list()) == []


def test_the_same_chunk_may_be_copied_by_several_at_once(
    both: tuple[LocalStorage, LocalStorage],
) -> None:
    source, destination = both
    source.write("a", DATA)
    task = task_for(source, destination, "a")
    together = threading.Barrier(4)
    parts: list[str] = []

    def copy() -> None:
        together.wait(10)
        done = copy_chunk(task, source, destination, Taken(), piece_bytes=100_000)
        parts.append(done.part)

    threads = [threading.Thread(target=copy) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(parts) == 4
    assert [info.path for info in destination.list()] == [parts[0]]
    assert destination.read(parts[0]) == DATA


def test_a_destination_that_cannot_be_written_is_told(
    both: tuple[LocalStorage, LocalStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, destination = both
    source.write("a", DATA)

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="the disk is full"):
        copy_chunk(task_for(source, destination, "a"), source, destination, Taken())
    monkeypatch.undo()
    assert list(destination.list()) == []


def test_a_task_that_was_sent_is_read_strictly() -> None:
    task = ChunkTask(
        source="/a", destination="/b", path="x", version="1", offset=0, length=3, staged="s"
    )
    encoded = msgspec.json.encode(task)
    assert msgspec.json.decode(encoded, type=ChunkTask) == task
    for bad in ({"offset": -1}, {"digest": "../../x"}, {"extra": 1}):
        document = {**msgspec.json.decode(encoded), **bad}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(document, ChunkTask)


def test_chunks_go_from_one_directory_of_hdfs_to_another(hdfs_dir: str, tmp_path: Path) -> None:
    hdfs = HdfsStorage(hdfs_dir)
    hdfs.write("a", DATA)
    task = task_for(hdfs, hdfs, "a", offset=1, length=len(DATA) - 1, read_back=True)
    done = copy_chunk(task, hdfs, hdfs, Taken(), piece_bytes=MEBIBYTE)
    assert hdfs.read(done.part) == DATA[1:]
    hdfs.write("a", OTHER)
    with pytest.raises(StaleError):
        copy_chunk(task, hdfs, hdfs, Taken(), piece_bytes=MEBIBYTE)
    hdfs.close()
