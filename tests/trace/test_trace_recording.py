"""The trace of a process: shared by all that works in it, turned off, impossible, forked."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import ConfigError, StorageError
from headrace.trace import recording
from headrace.trace.events import Event, Kind
from headrace.trace.opening import open_trace
from headrace.trace.recording import begin_steps, open_recording
from headrace.trace.segments import Origin

ORIGIN = Origin(role="trainer")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has recorded nothing yet, and may."""
    monkeypatch.setattr(recording, "_process", recording._Process())
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path))
    monkeypatch.setenv("HEADRACE_RUN", "run")
    return tmp_path


def load(begin_ns: int, **fields: Any) -> Event:
    return Event(kind=Kind.LOAD, begin_ns=begin_ns, **fields)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in open_trace([folder]).batches() for row in batch.to_pylist()]


def close_shared() -> None:
    shared = recording._process.recording(ORIGIN)
    assert shared is not None
    shared._recorder.close()


def test_all_of_a_process_record_into_the_folder_of_their_run(home: Path) -> None:
    first, second = open_recording(True, ORIGIN), open_recording(True, ORIGIN)
    assert first is second is not None
    first.record(load(1))
    first.leave()
    second.record(load(2))
    second.flush()
    assert [row["begin_ns"] for row in rows(home / "run")] == [1, 2]
    assert len(list((home / "run").iterdir())) == 1
    close_shared()


def test_events_are_of_the_job_that_began_and_of_the_phase_of_the_process(home: Path) -> None:
    shared = open_recording(True, ORIGIN)
    assert shared is not None
    shared.record(load(1))
    shared.begin_job("training")
    shared.begin_job("validation")
    begin_steps()
    shared.record(load(2))
    shared.record(load(3, job="validation", phase="evaluation"))
    shared.flush()
    assert [(row["job"], row["phase"]) for row in rows(home)] == [
        ("training", "initialisation"),
        ("training", "iteration"),
        ("validation", "evaluation"),
    ]
    close_shared()


def test_a_companion_evaluation_says_so_in_its_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PHASE", "evaluation")
    own = open_recording(home / "own", ORIGIN)
    assert own is not None
    begin_steps()
    own.record(load(1))
    own.leave()
    assert [row["phase"] for row in rows(home)] == ["evaluation"]


def test_a_phase_that_there_is_not_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PHASE", "evaluating")
    with pytest.raises(ConfigError, match="'evaluating' is no phase"):
        open_recording(home / "own", ORIGIN)


def test_nothing_is_recorded_where_it_is_turned_off(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_recording(False, ORIGIN) is None
    monkeypatch.setenv("HEADRACE_TRACE", "off")
    assert open_recording(True, ORIGIN) is None
    assert not list(home.iterdir())


def test_a_home_that_cannot_be_written_is_warned_of_once_and_one_that_was_named_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "file").touch()
    monkeypatch.setenv("HEADRACE_TRACE", str(home / "file"))
    assert open_recording(True, ORIGIN) is None
    assert open_recording(True, ORIGIN) is None
    assert caplog.text.count("this run is not recorded") == 1
    with pytest.raises(StorageError, match="cannot write a trace"):
        open_recording(home / "file" / "own", ORIGIN)


def test_a_daemon_without_a_home_is_not_recorded(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("HEADRACE_TRACE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert open_recording(True, ORIGIN) is None
    assert "this run is not recorded" in caplog.text


def test_a_fork_records_for_itself_beside_its_parent(home: Path) -> None:
    shared = open_recording(True, ORIGIN)
    assert shared is not None
    shared.record(load(1))
    pid = os.fork()
    if not pid:
        try:
            forked = open_recording(True, ORIGIN)
            assert forked is not None
            forked.record(load(2))
            forked.flush()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    shared.record(load(3))
    shared.flush()
    found = {row["begin_ns"]: row["pid"] for row in rows(home)}
    assert found == {1: os.getpid(), 2: pid, 3: os.getpid()}
    close_shared()


def _record_two() -> None:
    shared = open_recording(True, ORIGIN)
    assert shared is not None
    shared.record(load(2))


def test_a_child_of_multiprocessing_leaves_all_that_it_recorded(home: Path) -> None:
    shared = open_recording(True, ORIGIN)
    assert shared is not None
    shared.record(load(1))
    child = multiprocessing.get_context("fork").Process(target=_record_two)
    child.start()
    child.join(10)
    close_shared()
    assert {row["begin_ns"]: row["pid"] for row in rows(home)} == {1: os.getpid(), 2: child.pid}


def test_a_fork_while_another_thread_opens_the_trace_opens_its_own(home: Path) -> None:
    with recording._process._lock:  # as that thread has it
        child = os.fork()
        if not child:
            signal.alarm(5)
            open_recording(True, ORIGIN)
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
