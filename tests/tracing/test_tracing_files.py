"""The watched ``open`` does what the real one does, and tells what was opened, read, written."""

from __future__ import annotations

import copy
import io
import itertools
import os
import pickle
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.tracing.probe.files import watched_open
from headrace.tracing.probe.runs import JOINED_NS, NEAR_BYTES
from headrace.tracing.probe.tally import Tally
from headrace.tracing.probe.tracer import Tracer

CONTENT = bytes(range(256)) * 100


class Records:
    """Stands where the spool is."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def seen(self) -> list[tuple[Any, ...]]:
        return [
            tuple(event.get(name) for name in ("name", "offset", "bytes", "count"))
            for event in self.events
        ]


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def tracer(records: Records) -> Tracer:
    return Tracer(records)  # type: ignore[arg-type]


@pytest.fixture
def watched(tracer: Tracer) -> Any:
    return watched_open(tracer)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def outcome(opened: Any, path: Path, *arguments: Any, **named: Any) -> Any:
    """Return what a call of ``open`` gives: kinds of objects all the way down, or its error."""
    try:
        with opened(path, *arguments, **named) as file:
            buffer = getattr(file, "buffer", file)
            raw = getattr(buffer, "raw", buffer)
            names = (
                "mode", "name", "encoding", "errors", "newlines", "line_buffering", "closed",
                "isatty", "readable", "writable", "seekable", "tell",
            )  # fmt: skip
            found = {name: getattr(file, name, None) for name in names}
            told = {name: value() if callable(value) else value for name, value in found.items()}
            kinds = [type(part) for part in (file, buffer) if part is not raw]
            return kinds, isinstance(raw, io.FileIO), told
    except (OSError, ValueError, TypeError, LookupError) as error:
        return type(error), str(error)


MODES = ["".join(mode) for n in (1, 2) for mode in itertools.product("rwaxbt+U", repeat=n)]
MODES += ["r+b", "rb+", "wt+", "rbt", "rrr"]


def test_it_gives_what_the_real_one_gives_in_every_mode(watched: Any, tmp_path: Path) -> None:
    for mode in MODES:
        found = []
        for opened in (io.open, watched):
            path = tmp_path / "same"
            if "x" in mode:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(CONTENT)
            found.append(outcome(opened, path, mode))
        assert found[0] == found[1], mode


@pytest.mark.parametrize(
    "named",
    [
        {"buffering": 0},
        {"mode": "rb", "buffering": 0},
        {"mode": "rb", "buffering": 1 << 16},
        {"buffering": 1},
        {"encoding": "latin-1", "errors": "replace", "newline": ""},
        {"encoding": "no-such-encoding"},
        {"mode": "rb", "encoding": "utf-8"},
        {"mode": "rb", "newline": ""},
        {"closefd": False},
        {"opener": os.open},
        {"mode": 7},
        {"mode": ["r"]},
    ],
)
def test_it_gives_what_the_real_one_gives_for_other_arguments(
    watched: Any, file: Path, named: dict[str, Any]
) -> None:
    assert outcome(watched, file, **named) == outcome(io.open, file, **named)


@pytest.mark.parametrize("path", ["", "missing", "nul\0", b"bytes", 3.5, None, 10**6, "."])
def test_it_fails_as_the_real_one_fails(
    watched: Any, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert outcome(watched, path) == outcome(io.open, path)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["read", "read1", "seek", "tell", "readline", "peek", "readinto", "write"]),
        st.integers(0, 5000),
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS, st.sampled_from(["rb", "wb", "ab", "r+b"]), st.sampled_from([-1, 0, 64]))
def test_files_behave_as_real_ones(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[tuple[str, int]],
    mode: str,
    buffering: int,
) -> None:
    ends = []
    for opened in (io.open, watched_open(Tracer(Records()))):  # type: ignore[arg-type]
        path = tmp_path_factory.mktemp("same") / "file"
        path.write_bytes(CONTENT)
        with opened(path, mode, buffering) as file:
            ends.append([_do(file, *operation) for operation in operations])
        ends[-1].append(path.read_bytes())
    assert ends[0] == ends[1]


def _do(file: Any, operation: str, number: int) -> Any:
    try:
        if operation == "readinto":
            buffer = bytearray(number)
            return file.readinto(buffer), bytes(buffer)
        if operation == "write":
            return file.write(b"w" * number)
        if operation == "peek":
            return file.peek()[:1]
        return getattr(file, operation)(*(() if operation == "tell" else (number,)))
    except (OSError, AttributeError, ValueError) as error:
        return type(error)


def test_it_is_told_what_was_opened_read_and_written(
    watched: Any, file: Path, records: Records, tmp_path: Path
) -> None:
    with watched(file, "rb", 0) as opened:
        opened.seek(500)
        opened.read(100)
    with watched(tmp_path / "out", "wb") as opened:
        opened.write(b"x" * 10)
    assert records.seen() == [
        ("open", None, None, None),
        ("read", 500, 100, None),
        ("open", None, None, None),
        ("write", 0, 10, None),
    ]
    assert {event["file"] for event in records.events} == {str(file), str(tmp_path / "out")}
    assert [event.get("is_write") for event in records.events] == [None, False, None, True]


def test_quick_reads_of_one_place_are_one_event(watched: Any, file: Path, records: Records) -> None:
    with watched(file, "rb", 0) as opened:
        opened.seek(20_000)
        for _ in range(3):
            opened.read(1000)
        opened.seek(100)
        opened.read(7)
    assert records.seen()[1:] == [("read", 100, 3007, 4)]


def test_reads_of_distant_places_are_events_of_their_own(
    watched: Any, records: Records, tmp_path: Path
) -> None:
    path = tmp_path / "long"
    path.write_bytes(bytes(NEAR_BYTES * 3))
    with watched(path, "rb", 0) as opened:
        for offset in (0, 2 * NEAR_BYTES, 10):
            opened.seek(offset)
            opened.read(5)
    assert records.seen()[1:] == [
        ("read", 0, 5, None),
        ("read", 2 * NEAR_BYTES, 5, None),
        ("read", 10, 5, None),
    ]


def test_a_slow_read_is_an_event_of_its_own(
    watched: Any, file: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.tracing.probe.runs.QUICK_NS", 0)
    with watched(file, "rb", 0) as opened:
        while opened.read(10_000):
            pass
    assert [event[1:3] for event in records.seen()[1:]] == [
        (0, 10_000),
        (10_000, 10_000),
        (20_000, 5_600),
    ]


def test_reads_of_files_that_stay_open_are_recorded_before_what_comes_later(
    watched: Any, tracer: Tracer, file: Path, records: Records
) -> None:
    with watched(file, "rb", 0) as one, watched(file, "rb", 0) as other:
        one.read(5)
        other.read(6)
        for later in (0, JOINED_NS):
            tracer.record("call", time.perf_counter_ns() + later, 0, name="later")
        assert [seen[0] for seen in records.seen()[2:]] == ["later", "read", "read", "later"]
    assert len(records.events) == 6


def test_a_fork_does_not_record_what_its_parent_read(
    watched: Any, file: Path, records: Records
) -> None:
    with watched(file, "rb", 0) as opened:
        opened.read(5)
        child = os.fork()
        if not child:
            opened.read(7)
            opened.close()
            os._exit(records.events[-1]["bytes"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert records.seen()[-1] == ("read", 0, 5, None)


def test_lines_of_a_text_are_read_by_the_buffer(
    watched: Any, records: Records, tmp_path: Path
) -> None:
    path = tmp_path / "text"
    path.write_text("line\n" * 10_000)
    with watched(path) as opened:
        assert sum(1 for _ in opened) == 10_000
    (read,) = records.events[1:]
    assert read["bytes"] == 50_000
    assert 1 < read["count"] < 20


def test_what_a_load_opens_and_reads_is_added_up(
    watched: Any, tracer: Tracer, file: Path, records: Records
) -> None:
    tally = tracer.tallies.current = Tally()
    with watched(file, "rb") as opened:
        opened.read()
    assert (tally.opens, tally.read_bytes, tally.file) == (1, len(CONTENT), str(file))
    assert tally.opening_ns > 0 < tally.reading_ns
    assert [event["kind"] for event in records.events] == ["request"]


def test_what_holds_no_data_is_not_watched(watched: Any, records: Records, tmp_path: Path) -> None:
    code = tmp_path / "module.py"
    code.write_text("x = 1")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"in",))
    writer.start()
    for path in ("/proc/self/status", "/dev/null", code, fifo, os.open(code, os.O_RDONLY)):
        with watched(path, "rb") as opened:
            opened.read()
    writer.join()
    assert records.events == []


def test_it_may_be_held_by_a_class_pickled_and_copied(watched: Any, file: Path) -> None:
    class Holder:
        open = watched

    with Holder().open(file, "rb") as opened:
        assert opened.read() == CONTENT
    assert pickle.loads(pickle.dumps(io.open)) is io.open
    assert copy.deepcopy(watched) is watched
    assert watched.__reduce__() == io.open.__reduce__()
    assert isinstance(io.open, types.BuiltinFunctionType)


def test_where_nothing_can_be_recorded_files_work_on(
    watched: Any, file: Path, records: Records, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def full(event: dict[str, Any]) -> None:
        raise OSError("no space")

    monkeypatch.setattr(records, "write", full)
    for _ in range(3):
        with watched(file, "rb") as opened:
            assert opened.read() == CONTENT
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "files of process" in said
    assert "OSError: no space" in said
