"""Step traces: written in time, readable while they grow, whole after a crash, taken up again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from headrace.core.clock import ManualClock
from headrace.core.errors import CallerError, CorruptDataError, NotFoundError, StorageError
from headrace.trace.reader import read_steps
from headrace.trace.recorder import FLUSH_ROWS, StepRecorder
from headrace.trace.steps import FIELDS, StepRecord, arrow_schema


def step(number: int, *, rank: int = 0) -> StepRecord:
    return StepRecord(
        job="job",
        rank=rank,
        step=number,
        epoch=0,
        begin_s=1.7e9 + number,
        step_s=0.1,
        wait_s=0.01,
        samples=64,
        bytes_wire=2**40 + number,
    )


def numbers(path: Path) -> list[int]:
    return read_steps(path)["step"].to_pylist()


def test_what_was_recorded_is_read_back_field_by_field(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrow"
    with StepRecorder(path) as recorder:
        recorder.record(step(3, rank=2))
    assert read_steps(path).to_pylist() == [msgspec.structs.asdict(step(3, rank=2))]


def test_any_arrow_reader_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrow"
    with StepRecorder(path) as recorder:
        recorder.record(step(0))
    with pa.OSFile(str(path)) as file:
        assert pa.ipc.open_stream(file).read_all().column_names == list(FIELDS)


def test_a_second_or_256_records_are_the_most_that_is_held_back(tmp_path: Path) -> None:
    path, clock = tmp_path / "steps.arrow", ManualClock()
    recorder = StepRecorder(path, clock=clock)
    for number in range(FLUSH_ROWS - 1):
        recorder.record(step(number))
    assert numbers(path) == []
    recorder.record(step(FLUSH_ROWS - 1))
    assert numbers(path) == list(range(FLUSH_ROWS))
    clock.advance(0.9)
    recorder.record(step(FLUSH_ROWS))
    assert len(numbers(path)) == FLUSH_ROWS
    clock.advance(0.1)
    recorder.record(step(FLUSH_ROWS + 1))
    assert len(numbers(path)) == FLUSH_ROWS + 2
    recorder.close()
    recorder.close()


@pytest.mark.parametrize("lost", [1, 7, 100, 400])
def test_a_cut_tail_costs_its_batch_alone_and_is_replaced_by_the_next_run(
    tmp_path: Path, lost: int
) -> None:
    path = tmp_path / "steps.arrow"
    with StepRecorder(path) as recorder:
        for number in range(4):
            recorder.record(step(number))
            recorder.flush()
    os.truncate(path, path.stat().st_size - lost)
    assert numbers(path) == [0, 1, 2]
    with StepRecorder(path) as recorder:
        recorder.record(step(9))
    assert numbers(path) == [0, 1, 2, 9]


def test_a_file_cut_anywhere_can_be_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrow"
    with StepRecorder(path) as recorder:
        recorder.record(step(0))
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        assert numbers(path) == []
        with StepRecorder(path) as recorder:
            recorder.record(step(1))
        assert numbers(path) == [1]


def test_a_killed_job_leaves_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrow"
    program = (
        "import sys, time\n"
        "from headrace.trace.recorder import StepRecorder\n"
        "from headrace.trace.steps import StepRecord\n"
        "recorder = StepRecorder(sys.argv[1])\n"
        "for step in range(10**9):\n"
        "    recorder.record(StepRecord(job='j', rank=0, step=step, epoch=0, begin_s=time.time(),"
        " step_s=0.001, wait_s=0.0))\n"
        "    time.sleep(0.0005)\n"
    )
    job = subprocess.Popen([sys.executable, "-c", program, str(path)])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (path.exists() and numbers(path)):
            time.sleep(0.02)
    finally:
        job.send_signal(signal.SIGKILL)
        job.wait(10)
    seen = numbers(path)
    assert seen
    assert seen == list(range(len(seen)))


def test_a_file_that_is_no_trace_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "precious.txt"
    other.write_text("not a trace " * 1000)
    stream = tmp_path / "other.arrow"
    table = pa.table({"x": [1] * 1000})
    with pa.OSFile(str(stream), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    for path in (other, stream):
        before = path.read_bytes()
        with pytest.raises(CorruptDataError, match=path.name):
            read_steps(path)
        with pytest.raises(CallerError, match="another path"):
            StepRecorder(path)
        assert path.read_bytes() == before


def test_two_ranks_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrow"
    with StepRecorder(path) as first:
        first.record(step(0))
        with pytest.raises(CallerError, match="each rank its own file"):
            StepRecorder(path)
    with StepRecorder(path) as later:
        later.record(step(1))
    assert read_steps(path).column("step").to_pylist() == [0, 1]


def test_a_short_text_is_no_trace_either(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("short")
    with pytest.raises(CallerError, match="another path"):
        StepRecorder(path)
    assert path.read_text() == "short"


def test_a_trace_that_is_not_there_or_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="trace=PATH"):
        read_steps(tmp_path / "missing.arrow")
    with pytest.raises(StorageError, match="folder that is there"):
        StepRecorder(tmp_path / "missing" / "steps.arrow")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.timeout(30)
def test_a_device_or_a_pipe_is_refused_and_never_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(CallerError, match="regular file"):
            StepRecorder(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path / "steps.arrow")
    recorder._file.close()
    recorder._file = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115, PTH123
    recorder.record(step(0))
    with pytest.raises(StorageError, match="space"):
        recorder.close()


def test_every_number_has_its_unit_or_is_a_count() -> None:
    counts = {"rank", "step", "epoch", "samples", "queue_batches"}
    for field in arrow_schema():
        named = field.name.endswith("_s") or field.name.split("_")[0] in ("bytes", "samples")
        assert named or field.name in counts | {"job", "queue_bytes"}


def test_recording_is_cheap(tmp_path: Path) -> None:
    record = step(0)
    with StepRecorder(tmp_path / "steps.arrow") as recorder:
        costs = []
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(FLUSH_ROWS):
                recorder.record(record)
            costs.append((time.perf_counter() - begin) / FLUSH_ROWS)
    assert min(costs) < 20e-6
