"""Compaction: smaller, sorted, nothing lost or read twice whatever moment it ends at."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.core.errors import StorageError
from headrace.trace import compaction
from headrace.trace.compaction import closed_segments, compact
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.exportparquet import export_parquet
from headrace.trace.opening import open_trace
from headrace.trace.segments import SUFFIX, Origin
from headrace.trace.store import EventRecorder, RecorderLimits

BEGIN = 1_700_000_000_000_000_000


def record(folder: Path, count: int, *, host: str = "h", flushes: int = 20) -> None:
    with EventRecorder(folder, Origin(role="loader", host=host, job="j")) as recorder:
        for number in reversed(range(count)):
            recorder.record(Event(kind=Kind.STEP, begin_ns=BEGIN + number, step=number, file="f"))
            if number % (count // flushes) == 0:
                recorder.flush()


def steps(folder: Path) -> list[int]:
    return [step for batch in open_trace([folder]).batches() for step in batch["step"].to_pylist()]


def test_segments_become_one_smaller_sorted_file(tmp_path: Path) -> None:
    record(tmp_path, 400)
    record(tmp_path, 400)
    told: list[int] = []
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    done = compact(closed_segments(tmp_path), told.append)
    [path] = tmp_path.iterdir()
    assert done.files == (path,)
    assert (done.segments, done.events, done.damaged) == (2, 800, ())
    assert sum(told) == 2 * before
    assert done.after_bytes == path.stat().st_size < before / 2
    assert steps(tmp_path) == sorted([*range(400), *range(400)])


def test_hosts_stay_apart_so_that_their_clocks_can_still_be_compared(tmp_path: Path) -> None:
    for rank, host in enumerate("ab"):
        origin = Origin(role="loader", host=host, rank=rank)
        with EventRecorder(tmp_path / host, origin) as recorder:
            for step in range(20):
                begin = BEGIN + step * 10**9 + rank * 3 * 10**9
                recorder.record(Event(kind=Kind.BARRIER, begin_ns=begin, duration_ns=1, step=step))
        compact(closed_segments(tmp_path / host))
    assert open_trace([tmp_path]).clocks().offsets["b"].ns == 3 * 10**9


def test_a_crash_before_the_segments_are_removed_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 100)
    monkeypatch.setattr(compaction.Path, "unlink", lambda *_, **__: os._exit(7))
    child = os.fork()
    if not child:
        compact(closed_segments(tmp_path))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    monkeypatch.undo()
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 1
    assert steps(tmp_path) == list(range(100))


def test_what_is_being_written_or_damaged_is_left_alone(tmp_path: Path) -> None:
    record(tmp_path, 100)
    [whole] = tmp_path.iterdir()
    damaged = tmp_path / f"cut{SUFFIX}"
    damaged.write_bytes(whole.read_bytes()[:-5])
    with EventRecorder(tmp_path, Origin(role="live")) as recorder:
        recorder.record(Event(kind=Kind.STEP, begin_ns=BEGIN, step=-1))
        recorder.flush()
        done = compact(closed_segments(tmp_path))
        assert done.damaged == (damaged,)
        assert done.events == 100
        assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 2


def test_what_was_lost_is_still_said_afterwards(tmp_path: Path) -> None:
    limits = RecorderLimits(segment_bytes=10_000, folder_bytes=30_000)
    with EventRecorder(tmp_path, Origin(role="loader", host="h"), limits=limits) as recorder:
        for number in range(200):
            recorder.record(Event(kind=Kind.STEP, begin_ns=number, file=f"{number:0300}"))
            recorder.flush()
    before = open_trace([tmp_path])
    kept = sum(batch.num_rows for batch in before.batches())
    compact(closed_segments(tmp_path))
    after = open_trace([tmp_path])
    assert sum(batch.num_rows for batch in after.batches()) == kept
    assert after.notes.lost_events == before.notes.lost_events == 200 - kept > 0


def test_compacting_again_adds_a_file(tmp_path: Path) -> None:
    for _ in range(2):
        record(tmp_path, 100)
        compact(closed_segments(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    assert sorted(steps(tmp_path)) == sorted([*range(100), *range(100)])
    assert compact(closed_segments(tmp_path)).files == ()


def test_a_file_that_cannot_be_written_leaves_the_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 100)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(StorageError, match="No space left"):
        compact(closed_segments(tmp_path))
    monkeypatch.undo()
    assert steps(tmp_path) == list(reversed(range(100)))


def test_an_exported_file_is_a_trace(tmp_path: Path) -> None:
    events = [Event(kind=Kind.STEP, begin_ns=number % 7, step=number) for number in range(50)]
    assert export_parquet([batch_of(events)], tmp_path / "t.parquet") == 50
    [batch] = open_trace([tmp_path / "t.parquet"]).batches()
    assert sorted(batch["step"].to_pylist()) == list(range(50))
    assert batch["begin_ns"].to_pylist() == sorted(number % 7 for number in range(50))
