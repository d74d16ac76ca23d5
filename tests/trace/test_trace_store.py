"""Recorders: written in time, readable while they grow, bounded, never in the caller's way."""

from __future__ import annotations

import errno
import fcntl
import logging
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headrace.core.errors import ConfigError, StorageError
from headrace.trace import store
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.importer import Notes
from headrace.trace.importers.segments import Segments, count_events
from headrace.trace.opening import open_trace
from headrace.trace.retention import Removed, make_room
from headrace.trace.segments import LOST_KEY, SUFFIX, Origin, is_growing
from headrace.trace.store import EventRecorder, RecorderLimits
from waiting import eventually

ORIGIN = Origin(role="loader", job="j", host="h", rank=3)


def event(number: int, **fields: object) -> Event:
    return Event(kind=Kind.STEP, begin_ns=1_700_000_000_000_000_000 + number, step=number, **fields)


def steps(folder: Path) -> list[int]:
    return [step for batch in open_trace([folder]).batches() for step in batch["step"].to_pylist()]


def rows(folder: Path) -> list[dict[str, object]]:
    return [row for batch in open_trace([folder]).batches() for row in batch.to_pylist()]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def test_what_was_recorded_is_read_back_column_by_column(tmp_path: Path) -> None:
    full = event(
        7, name="n", job="own", host="g", rank=1, pid=5, file="f", is_write=True, counts={"a": 1}
    )
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(full)
    assert rows(tmp_path) == batch_of([full]).to_pylist()


def test_what_an_event_does_not_say_comes_from_its_origin(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        recorder.record(event(1, job="other"))
    first, second = rows(tmp_path)
    assert (first["job"], first["host"], first["rank"], first["pid"]) == ("j", "h", 3, os.getpid())
    assert (second["job"], second["host"]) == ("other", "h")


def test_any_arrow_reader_reads_a_segment(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
    [path] = segments(tmp_path)
    with pa.OSFile(str(path)) as file:
        assert pa.ipc.open_stream(file).read_all().num_rows == 1


def test_an_event_is_on_disk_in_time_also_when_no_other_follows(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        eventually(lambda: steps(tmp_path) == [0])


def test_threads_record_side_by_side_and_nothing_is_lost(tmp_path: Path) -> None:
    def work(recorder: EventRecorder, first: int) -> None:
        for number in range(first, first + 20_000):
            recorder.record(event(number))

    with EventRecorder(tmp_path, ORIGIN) as recorder:
        threads = [threading.Thread(target=work, args=(recorder, n * 20_000)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(steps(tmp_path)) == list(range(80_000))


def test_two_recorders_share_a_folder(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as one, EventRecorder(tmp_path, ORIGIN) as other:
        one.record(event(0))
        other.record(event(1))
    assert sorted(steps(tmp_path)) == [0, 1]
    assert len(segments(tmp_path)) == 2


def test_a_recorder_without_events_leaves_nothing(tmp_path: Path) -> None:
    EventRecorder(tmp_path, ORIGIN).close()
    assert segments(tmp_path) == []


def test_a_folder_keeps_its_bound_and_says_how_many_events_went(tmp_path: Path) -> None:
    limits = RecorderLimits(segment_bytes=20_000, folder_bytes=60_000)
    with EventRecorder(tmp_path, ORIGIN, limits=limits) as recorder:
        for number in range(400):
            recorder.record(event(number, file=f"{number:0200}"))
            if number % 10 == 9:
                recorder.flush()
            size = sum(path.stat().st_size for path in segments(tmp_path))
            assert size <= limits.folder_bytes + 10_000
    trace = open_trace([tmp_path])
    kept = [step for batch in trace.batches() for step in batch["step"].to_pylist()]
    assert sorted(kept) == list(range(400 - len(kept), 400))
    assert 0 < len(kept) < 400
    assert trace.notes.lost_events == 400 - len(kept)
    assert trace.notes.is_partial


def test_what_a_killed_run_left_makes_room_but_a_live_recorders_segment_never(
    tmp_path: Path,
) -> None:
    live = EventRecorder(tmp_path, msgspec.structs.replace(ORIGIN, rank=1))
    with live:
        live.record(event(0, file="x" * 4000))
        live.flush()
        [held] = segments(tmp_path)
        old = tmp_path / f"left{SUFFIX}"
        shutil.copy(held, old)
        limits = RecorderLimits(segment_bytes=100, folder_bytes=200)
        EventRecorder(tmp_path, ORIGIN, limits=limits).close()
        assert not old.exists()
        assert held.exists()


def test_events_that_do_not_fit_the_schema_are_lost_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = [
        event(1, offset=1 << 70),
        event(2, counts={"a": "b"}),
        event(3, rank="three"),
        "no event",
    ]
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        for one in [event(0), *bad, event(9)]:
            recorder.record(one)  # type: ignore[arg-type]
        recorder.flush()
        assert recorder.statistics().lost_events == len(bad)
    assert steps(tmp_path) == [0, 9]
    assert len(caplog.records) == 1


def test_a_name_that_is_no_unicode_is_kept_as_it_can_be_written(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0, file=name))
    assert rows(tmp_path)[0]["file"] == "caf\\udce9"


def test_a_hostile_host_or_role_stays_within_the_folder(tmp_path: Path) -> None:
    origin = Origin(role="../" * 100, host="/etc/\0\n", job="..")
    with EventRecorder(tmp_path / "in", origin) as recorder:
        recorder.record(event(0))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert rows(tmp_path)[0]["host"] == "/etc/\0\n"


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="folder that can be written"):
        EventRecorder(tmp_path / "file", ORIGIN)


def test_a_folder_that_is_removed_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with EventRecorder(folder, ORIGIN) as recorder:
        recorder.record(event(0))
        recorder.flush()
        shutil.rmtree(folder)
        recorder.record(event(1))
    assert steps(folder) == [1]


def test_a_recorder_writes_where_its_folder_was_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with EventRecorder("trace", ORIGIN) as recorder:
        recorder.record(event(0))
        monkeypatch.chdir(elsewhere)
        recorder.name_job("k")  # begins another segment
        recorder.record(event(1))
    assert steps(tmp_path / "trace") == [0, 1]
    assert not list(elsewhere.iterdir())


def test_closing_twice_and_recording_later_are_harmless(tmp_path: Path) -> None:
    recorder = EventRecorder(tmp_path, ORIGIN)
    recorder.record(event(0))
    recorder.close()
    recorder.record(event(1))
    recorder.close()
    assert steps(tmp_path) == [0]
    assert recorder.statistics().waiting_events == 0


@pytest.mark.parametrize(
    "limits", [{"flush_s": 0.0}, {"segment_bytes": 0}, {"folder_bytes": 1}, {"waiting_events": 0}]
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        RecorderLimits(**limits)  # type: ignore[arg-type]


def test_a_fork_writes_its_own_events_to_its_own_segment(tmp_path: Path) -> None:
    def child(recorder: EventRecorder) -> None:
        recorder.record(event(1))
        recorder.flush()

    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        process = multiprocessing.get_context("fork").Process(target=child, args=(recorder,))
        process.start()
        process.join(30)
        assert process.exitcode == 0
        recorder.record(event(2))
    written = {row["step"]: row["pid"] for row in rows(tmp_path)}
    assert written == {0: os.getpid(), 1: process.pid, 2: os.getpid()}


def test_forks_while_threads_record_never_hang_or_double_an_event(tmp_path: Path) -> None:
    done = threading.Event()
    count = 0

    def work(recorder: EventRecorder) -> None:
        nonlocal count
        while not done.is_set():
            recorder.record(event(count))
            count += 1
            time.sleep(0.0001)

    with EventRecorder(tmp_path, ORIGIN, limits=RecorderLimits(flush_s=0.001)) as recorder:
        thread = threading.Thread(target=work, args=(recorder,))
        thread.start()
        for _ in range(10):
            process = multiprocessing.get_context("fork").Process(target=recorder.flush)
            process.start()
            process.join(30)
            assert process.exitcode == 0
        done.set()
        thread.join()
    lost = recorder.statistics().lost_events
    assert len(set(steps(tmp_path))) == len(steps(tmp_path)) == count - lost


PROGRAM = """
import sys, time
from headrace.trace.events import Event
from headrace.trace.segments import Origin
from headrace.trace.store import EventRecorder
recorder = EventRecorder(sys.argv[1], Origin(role="loader"))
for step in range(10**9):
    recorder.record(Event(kind="step", begin_ns=time.time_ns(), step=step))
    if step % 50 == 0:
        time.sleep(0.001)
        if step == 0:
            print("begun", flush=True)
"""


def test_a_killed_process_loses_nothing_of_what_went_before(tmp_path: Path) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    with job.stdout:
        assert job.stdout.readline() == "begun\n"
        eventually(lambda: segments(tmp_path) and steps(tmp_path))
        looked_ns = time.time_ns()
        eventually(lambda: rows(tmp_path)[-1]["begin_ns"] > looked_ns)  # type: ignore[operator]
        job.send_signal(signal.SIGKILL)
        job.wait(10)
    seen = rows(tmp_path)
    assert [row["step"] for row in seen] == list(range(len(seen)))
    assert seen[-1]["begin_ns"] > looked_ns  # type: ignore[operator]


def test_a_process_that_ends_writes_what_is_left(tmp_path: Path) -> None:
    program = PROGRAM.replace("10**9", "10")
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, stdout=subprocess.DEVNULL
    )
    assert steps(tmp_path) == list(range(10))


def test_a_segment_cut_at_any_byte_gives_its_whole_batches(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        for number in range(3):
            recorder.record(event(number))
            recorder.flush()
    [path] = segments(tmp_path)
    whole, cut = path.read_bytes(), tmp_path / f"cut{SUFFIX}"
    counts = []
    for length in range(0, len(whole), 29):
        cut.write_bytes(whole[:length])
        notes = Notes()
        assert Segments().recognises(cut, whole[:length])
        counts.append(sum(b.num_rows for b in Segments().read(cut, notes, lambda _: None)))
        assert len(notes.problems) <= 1
        assert all(f"cut{SUFFIX}" in one for one in notes.problems)
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2}


def test_damage_within_a_segment_never_raises_anything_but_our_errors(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        for number in range(50):
            recorder.record(event(number, file=f"f{number}", counts={"x": number}))
    [path] = segments(tmp_path)
    whole = bytearray(path.read_bytes())
    for place in range(0, len(whole), 23):
        damaged = bytearray(whole)
        damaged[place] ^= 0x5A
        path.write_bytes(damaged)
        try:
            for batch in open_trace([path]).batches():
                batch.validate(full=True)
        except (StorageError, ConfigError) as error:
            pytest.fail(f"{place}: {error!r}")
        except Exception as error:  # noqa: BLE001
            assert type(error).__module__ == "headrace.core.errors", (place, error)


def test_recording_is_cheap(tmp_path: Path) -> None:
    one = event(0)
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        costs = []
        for _ in range(10):
            begin = time.thread_time()
            for _ in range(1000):
                recorder.record(one)
            costs.append((time.thread_time() - begin) / 1000)
    assert min(costs) < 3e-6


class Doubled:
    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        return batch_of([event(number * sign) for (number,) in rows for sign in (1, -1)])


def test_rows_become_events_when_they_are_written(tmp_path: Path) -> None:
    made = Doubled()
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record_row(made, (1,))
        recorder.record(event(5))
        recorder.record_row(made, ("no number",))
        recorder.record_row(made, (2,))
    assert sorted(steps(tmp_path)) == [-2, -1, 1, 2, 5]
    assert recorder.statistics().lost_events == 1


def test_events_that_come_faster_than_the_disk_takes_them_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    limits = RecorderLimits(waiting_events=8192, flush_s=60)
    with EventRecorder(tmp_path, ORIGIN, limits=limits) as recorder:
        with recorder._lock:  # the disk hangs
            for number in range(10_000):
                recorder._pending.append(event(number)) if number < 8192 else recorder.record(
                    event(number)
                )
        recorder.flush()
        assert recorder.statistics().lost_events == 10_000 - 8192
    trace = open_trace([tmp_path])
    assert sum(batch.num_rows for batch in trace.batches()) == 8192
    assert trace.notes.lost_events == 10_000 - 8192
    assert len(caplog.records) == 1


def test_closing_loses_nothing_while_other_threads_go_on_recording(tmp_path: Path) -> None:
    for turn in range(8):
        recorder = EventRecorder(tmp_path / str(turn), ORIGIN)
        ended = threading.Event()

        def go_on(recorder: EventRecorder = recorder, ended: threading.Event = ended) -> None:
            while not ended.is_set():
                recorder.record(event(1))
                time.sleep(1e-5)

        recorder.record(event(0))
        thread = threading.Thread(target=go_on)
        thread.start()
        recorder.close()
        ended.set()
        thread.join()
        assert steps(tmp_path / str(turn)).count(0) == 1


@contextmanager
def files_of_at_most(nbytes: int) -> Iterator[None]:
    """Let writes beyond a size fail, after what fits was written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_after_a_full_disk_recording_goes_on_and_the_trace_says_what_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        recorder.flush()
        [path] = segments(tmp_path)
        with files_of_at_most(path.stat().st_size + 100):
            for number in range(1, 6):
                recorder.record(event(number))
                recorder.flush()
        recorder.record(event(6))
    trace = open_trace([tmp_path])
    seen = [step for batch in trace.batches() for step in batch["step"].to_pylist()]
    assert seen == [0, 6]
    assert trace.notes.lost_events == 5
    assert not trace.notes.problems
    assert len(caplog.records) == 1


def test_zeros_within_a_segment_are_damage_and_not_its_end(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        recorder.flush()
        [path] = segments(tmp_path)
        first = path.stat().st_size
        recorder.record(event(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:first] + bytes(64) + whole[first:])
    trace = open_trace([path])
    assert [batch["step"].to_pylist() for batch in trace.batches()] == [[0]]
    assert f"byte {first:,}" in trace.notes.problems[0]


def test_closing_does_not_wait_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "_CLOSE_S", 0.05)
    recorder = EventRecorder(tmp_path, ORIGIN)
    recorder.record(event(0))
    with recorder._lock:  # as during a write that hangs
        begin = time.monotonic()
        recorder.close()
        assert time.monotonic() - begin < 4
    assert "does not answer" in caplog.text
    recorder.flush()
    recorder.close()
    assert steps(tmp_path) == [0]


def test_where_files_cannot_be_locked_a_segment_is_written_that_is_not_a_minute_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
    [path] = segments(tmp_path)
    assert is_growing(path)
    os.utime(path, (time.time() - 61,) * 2)
    assert not is_growing(path)
    assert make_room(tmp_path, 0) == Removed(segments=1, events=1)


def test_threads_flush_side_by_side(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work(recorder: EventRecorder, first: int) -> None:
        try:
            for number in range(first, first + 300):
                recorder.record(event(number))
                recorder.flush()
        except BaseException as error:  # noqa: BLE001 - for the assertion
            failures.append(error)

    with EventRecorder(tmp_path, ORIGIN, limits=RecorderLimits(flush_s=0.001)) as recorder:
        threads = [threading.Thread(target=work, args=(recorder, n * 300)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert sorted(steps(tmp_path)) == list(range(900))


def test_an_event_without_a_kind_or_a_begin_is_lost_alone(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(Event(kind=None, begin_ns=1))  # type: ignore[arg-type]
        recorder.record(Event(kind="step", begin_ns=None, step=0))  # type: ignore[arg-type]
        recorder.record(event(1))
    assert steps(tmp_path) == [1]
    assert recorder.statistics().lost_events == 2


class Broken:
    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        raise RuntimeError("no rows today")


def test_recording_goes_on_whatever_rows_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record_row(Broken(), (1,))
        recorder.flush()
        recorder.record(event(1))
    assert steps(tmp_path) == [1]
    assert recorder.statistics().lost_events == 1
    assert "no rows today" in caplog.text


def test_a_half_written_batch_is_no_damage_while_its_segment_is_being_written(
    tmp_path: Path,
) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        recorder.flush()
        [path] = segments(tmp_path)
        with path.open("ab") as file:
            file.write(path.read_bytes()[:40])
        trace = open_trace([path])
        assert sum(batch.num_rows for batch in trace.batches()) == 1
        assert not trace.notes.problems
    trace = open_trace([path])
    assert sum(batch.num_rows for batch in trace.batches()) == 1
    assert trace.notes.problems


def test_a_segment_that_a_reader_looked_at_as_it_began_is_locked_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(BlockingIOError()))
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        monkeypatch.setattr(fcntl, "flock", flock)
        [path] = segments(tmp_path)
        assert not is_growing(path)
        recorder.record(event(0))
        recorder.flush()
        assert is_growing(path)


def test_a_segment_that_cannot_be_mended_after_a_failed_write_is_left_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
        recorder.flush()
        [path] = segments(tmp_path)
        monkeypatch.setattr(os, "ftruncate", broken)
        with files_of_at_most(path.stat().st_size + 100):
            recorder.record(event(1))
            recorder.flush()
        recorder.record(event(2))
    trace = open_trace([tmp_path])
    assert sorted(step for one in trace.batches() for step in one["step"].to_pylist()) == [0, 2]
    assert trace.notes.lost_events == 1
    assert len(segments(tmp_path)) == 2


def test_segments_that_cannot_be_removed_do_not_keep_a_recorder_from_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        recorder.record(event(0))
    unlink = Path.unlink

    def of_another_user(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith("000001" + SUFFIX):
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", of_another_user)
    limits = RecorderLimits(segment_bytes=100, folder_bytes=100)
    with EventRecorder(tmp_path, ORIGIN, limits=limits) as recorder:
        recorder.record(event(1))
    assert steps(tmp_path) == [0, 1]


def test_a_cut_segment_counts_as_far_as_it_is_whole(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, ORIGIN) as recorder:
        for number in range(3):
            recorder.record(event(number))
            recorder.flush()
    [path] = segments(tmp_path)
    assert count_events(path) == 3
    os.truncate(path, path.stat().st_size - 20)
    assert count_events(path) == 2
    path.write_bytes(b"x")
    assert count_events(path) == 0


def test_a_count_of_lost_events_that_nobody_can_have_counted_is_none(tmp_path: Path) -> None:
    path = tmp_path / f"hostile-000001{SUFFIX}"
    batch = batch_of([event(0)])
    metadata = dict(batch.schema.metadata) | {LOST_KEY: b"9" * 5000}
    batch = batch.replace_schema_metadata(metadata)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema) as stream:
        stream.write_batch(batch)
    notes = Notes()
    assert sum(batch.num_rows for batch in Segments().read(path, notes, lambda _: None)) == 1
    assert notes.lost_events == 0
