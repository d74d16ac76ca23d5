"""Opening traces: which files, of which format, and what is said of those that are none."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.core.errors import CallerError, CorruptDataError, NotFoundError, StorageError
from headrace.trace.events import SCHEMA_KEY, Event, Kind, arrow_schema, batch_of
from headrace.trace.exportotel import export_otel
from headrace.trace.exportperfetto import export_perfetto
from headrace.trace.importer import BATCH_EVENTS
from headrace.trace.opening import Trace, open_trace
from headrace.trace.segments import SUFFIX, Origin
from headrace.trace.spanparents import Parents
from headrace.trace.store import EventRecorder

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND


def event(number: int, **fields: object) -> Event:
    return Event(kind=Kind.STEP, begin_ns=BEGIN + number, step=number, **fields)


def record(folder: Path, *numbers: int, host: str = "h", rank: int = 0) -> Path:
    with EventRecorder(folder, Origin(role="loader", host=host, rank=rank)) as recorder:
        for number in numbers:
            recorder.record(event(number))
    return max(folder.glob(f"{host}*{SUFFIX}"))


def parquet(path: Path, *numbers: int) -> Path:
    pq.write_table(pa.Table.from_batches([batch_of(map(event, numbers))]), path)
    return path


def steps(trace: Trace) -> list[int]:
    return [step for batch in trace.batches() for step in batch["step"].to_pylist()]


def test_files_directories_and_patterns_are_joined_and_each_file_is_read_once(
    tmp_path: Path,
) -> None:
    first = record(tmp_path / "a" / "deep", 1)
    parquet(tmp_path / "b.parquet", 2)
    trace = open_trace([tmp_path, first, f"{tmp_path}/*.parquet"])
    assert sorted(steps(trace)) == [1, 2]
    assert trace.format == "headrace"


def test_both_own_formats_have_the_columns_of_the_schema(tmp_path: Path) -> None:
    full = event(1, file="f", counts={"samples": 3, "queue_bytes": 0}, is_write=False)
    pq.write_table(pa.Table.from_batches([batch_of([full, event(2)])]), tmp_path / "t.parquet")
    with EventRecorder(tmp_path, Origin(role="x", host="h", pid=1)) as recorder:
        recorder.record(full)
    for batch in open_trace([tmp_path]).batches():
        assert batch.schema.equals(arrow_schema(), check_metadata=True)
        assert batch.to_pylist()[0]["counts"] == [("samples", 3), ("queue_bytes", 0)]


def test_gzip_is_read_as_it_lies(tmp_path: Path) -> None:
    path = record(tmp_path, 1, 2)
    packed = tmp_path / "packed" / f"{path.name}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert steps(open_trace([packed])) == [1, 2]
    packed.write_bytes(packed.read_bytes()[:-40])
    trace = open_trace([packed])
    assert steps(trace) in ([], [1, 2])
    assert trace.notes.problems


def test_small_batches_are_joined_and_all_bytes_are_told(tmp_path: Path) -> None:
    with EventRecorder(tmp_path, Origin(role="x", host="h")) as recorder:
        for number in range(50):
            recorder.record(event(number))
            recorder.flush()
    trace, told = open_trace([tmp_path]), []
    [batch] = trace.batches(told.append)
    assert batch.num_rows == 50
    assert sum(told) == trace.nbytes


def test_large_files_come_in_batches(tmp_path: Path) -> None:
    batch = batch_of(event(number) for number in range(3000))
    table = pa.Table.from_batches([batch] * 50)
    pq.write_table(table, tmp_path / "t.parquet")
    rows = [one.num_rows for one in open_trace([tmp_path]).batches()]
    assert sum(rows) == 150_000
    assert max(rows) <= BATCH_EVENTS


def test_hosts_whose_clocks_differ_are_laid_side_by_side(tmp_path: Path) -> None:
    for rank, (host, ahead) in enumerate((("a", 0), ("b", 5 * SECOND))):
        with EventRecorder(tmp_path, Origin(role="x", host=host, rank=rank)) as recorder:
            for number in range(20):
                begin = BEGIN + number * SECOND + ahead
                barrier = Event(kind=Kind.BARRIER, begin_ns=begin, duration_ns=100, step=number)
                recorder.record(barrier)
    trace, told = open_trace([tmp_path]), []
    begins = [t for batch in trace.batches(told.append) for t in batch["begin_ns"].to_pylist()]
    assert sorted(begins) == sorted(2 * [BEGIN + number * SECOND for number in range(20)])
    assert trace.clocks().offsets["b"].ns == 5 * SECOND
    assert sum(told) == trace.nbytes
    assert not trace.notes.unknown


def test_hosts_that_nothing_binds_are_said_and_read_as_they_are(tmp_path: Path) -> None:
    record(tmp_path, 1, host="a")
    record(tmp_path, 2, host="b")
    trace = open_trace([tmp_path])
    assert sorted(steps(trace)) == [1, 2]
    assert "a, b" in trace.notes.unknown["clocks"]


def test_files_of_a_directory_that_are_no_traces_are_noted(tmp_path: Path) -> None:
    record(tmp_path, 1)
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / ".hidden").write_text("hello")
    (tmp_path / "circle").symlink_to(tmp_path)
    trace = open_trace([tmp_path])
    assert steps(trace) == [1]
    assert trace.notes.left_out == [str(tmp_path / "readme.txt")]
    assert not trace.notes.is_partial


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"hello", "b'hello'"), (b"\x1f\x8b" * 9, "begins")]
)
def test_a_file_of_no_known_format_is_refused_with_the_formats(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(CallerError, match="traces are those of headrace") as caught:
        open_trace([path])
    assert said in str(caught.value)


@pytest.mark.timeout(20)
def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in (
        ("none", "there is no trace"),
        ("*.none", "there is no trace"),
        ("pipe", "a device or a pipe"),
        ("", "no trace in"),
    ):
        with pytest.raises(CallerError, match=said):
            open_trace([tmp_path / path])
    with pytest.raises(NotFoundError, match="no trace was named"):
        open_trace([])


@contextmanager
def without_privileges() -> Iterator[None]:
    """What root may do, nobody may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_what_may_not_be_read_is_said_and_the_rest_of_a_directory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    folder = Path("traces")
    for name in ("a.parquet", "b.parquet", "locked/c.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parquet(folder / name, 1)
    (folder / "b.parquet").chmod(0)
    (folder / "locked").chmod(0)
    with without_privileges():
        trace = open_trace([folder])
        assert steps(trace) == [1]
        for path in ("traces/locked", "traces/b.parquet"):
            with pytest.raises(StorageError, match=f"{path}: Permission denied$"):
                open_trace([path])
    assert [problem.split(": ")[0] for problem in trace.notes.problems] == [
        "cannot read the trace traces/b.parquet",
        "cannot list traces/locked",
    ]


def test_a_directory_of_which_nothing_may_be_read_is_no_directory_without_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    parquet(Path("a.parquet"), 1).chmod(0)
    with without_privileges(), pytest.raises(StorageError, match=r"a\.parquet: Permission denied$"):
        open_trace(["."])


def test_traces_are_named_by_file_urls_too_and_those_of_stores_must_be_copied(
    tmp_path: Path,
) -> None:
    path = parquet(tmp_path / "a trace.parquet", 1)
    for given in (path.as_uri(), f"file:{path}", f"file://localhost{tmp_path}/*.parquet"):
        assert steps(open_trace([given])) == [1]
    with pytest.raises(CallerError, match=r"hdfs://n/traces is not on this machine; copy it here"):
        open_trace(["hdfs://n/traces"])


def test_a_cut_parquet_file_among_others_is_a_problem_and_alone_an_error(tmp_path: Path) -> None:
    whole = parquet(tmp_path / "whole.parquet", *range(100))
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:-9])
    trace = open_trace([tmp_path])
    assert steps(trace) == list(range(100))
    assert "cut.parquet" in trace.notes.problems[0]
    with pytest.raises(CorruptDataError, match="no whole Parquet file"):
        steps(open_trace([cut]))


def test_events_of_another_version_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_batches([batch_of([event(1)])])
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: "2"}), tmp_path / "t.parquet")
    with pytest.raises(CorruptDataError, match="version 2, this headrace reads version 1"):
        steps(open_trace([tmp_path]))


def test_columns_that_were_not_there_yet_are_null_and_later_ones_are_left_out(
    tmp_path: Path,
) -> None:
    table = pa.Table.from_batches([batch_of([event(1)])]).drop_columns(["counts", "cpu_ns"])
    pq.write_table(table.append_column("later", pa.array(["x"])), tmp_path / "t.parquet")
    [batch] = open_trace([tmp_path]).batches()
    assert batch.schema.equals(arrow_schema())
    assert batch["cpu_ns"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("name", "column"),
    [("step", pa.array(["x"])), ("kind", pa.array([None], pa.string())), ("begin_ns", None)],
)
def test_columns_of_another_type_or_with_gaps_are_refused(
    tmp_path: Path, name: str, column: pa.Array | None
) -> None:
    table = pa.Table.from_batches([batch_of([event(1)])])
    place = table.schema.get_field_index(name)
    table = table.remove_column(place)
    if column is not None:
        table = table.add_column(place, name, column)
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(CorruptDataError, match=name):
        steps(open_trace([tmp_path]))


def test_damage_anywhere_in_a_parquet_file_is_an_error_of_ours(tmp_path: Path) -> None:
    path = parquet(tmp_path / "t.parquet", *range(20))
    whole = path.read_bytes()
    for place in range(0, len(whole), 11):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            for batch in open_trace([path]).batches():
                batch.validate(full=True)
        except (CorruptDataError, CallerError) as error:
            assert "t.parquet" in str(error)


def test_many_small_files_make_few_batches(tmp_path: Path) -> None:
    for rank in range(30):
        record(tmp_path, rank, rank=rank)
    [batch] = open_trace([tmp_path]).batches()
    assert sorted(batch["step"].to_pylist()) == list(range(30))


def test_a_segment_that_made_room_while_the_trace_is_read_is_a_problem_not_the_end(
    tmp_path: Path,
) -> None:
    gone = record(tmp_path, 1, rank=0)
    record(tmp_path, 2, rank=1)
    trace = open_trace([tmp_path])
    gone.unlink()
    assert steps(trace) == [2]
    assert gone.name in trace.notes.problems[0]


@pytest.mark.parametrize("to", ["perfetto", "otel"])
def test_what_headrace_wrote_for_other_tools_is_told_to_be_that(tmp_path: Path, to: str) -> None:
    batches = [batch_of([event(1, name="aten::add", job="j")])]  # a name that Kineto is told by
    path = tmp_path / f"{to}.pt.trace.json.gz"
    if to == "perfetto":
        export_perfetto(batches, path)
    else:
        export_otel(batches, path, parents=Parents())
    with pytest.raises(CallerError, match=f"--to {to}, for other tools; .* --to parquet"):
        open_trace([path])
    parquet(tmp_path / "trace.parquet", 1)
    trace = open_trace([tmp_path])
    assert len(trace.sources) == 1 and trace.notes.left_out == [str(path)]
