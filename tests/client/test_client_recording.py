"""What a loader records of itself: every step, where its time went, and what it asked for."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from epochs import loading

from headrace import Loader, Pipeline
from headrace.core.errors import StorageError
from headrace.trace.importers.segments import count_events
from headrace.trace.opening import open_trace
from headrace.trace.segments import SegmentFile
from waiting import eventually


def events(folder: Path) -> pa.Table:
    return pa.Table.from_batches(list(open_trace([folder]).batches()))


def of_kind(table: pa.Table, kind: str) -> list[dict[str, Any]]:
    return table.filter(pc.equal(table["kind"], kind)).to_pylist()


def test_each_step_is_recorded_with_its_wait_its_load_and_the_parts_of_that(
    dataset: Path, pipeline: Pipeline, tmp_path: Path
) -> None:
    with loading(dataset, pipeline=pipeline, trace=tmp_path) as loader:
        job, batches = loader.job.spec.id, list(loader)
    found = events(tmp_path)
    steps = of_kind(found, "step")
    assert [step["step"] for step in steps] == [0, 1, 2, 3]
    assert [step["bytes"] for step in steps] == [batch.nbytes for batch in batches]
    assert {(step["job"], step["rank"], step["pid"]) for step in steps} == {(job, 0, os.getpid())}
    loads = [load for load in of_kind(found, "load") if load["sample"] is None]
    for step, wait, load in zip(steps, of_kind(found, "wait"), loads, strict=True):
        assert 0 <= wait["duration_ns"] <= step["duration_ns"]
        assert wait["begin_ns"] == step["begin_ns"]
        assert load["begin_ns"] < step["begin_ns"] + step["duration_ns"]
        counts = dict(load["counts"])
        assert counts["samples"] == counts["samples_local"] == 6
        assert counts["bytes_storage"] > 0
    for kind in ("metadata", "retrieval", "transformation", "overhead"):
        parts = of_kind(found, kind)
        assert [part["step"] for part in parts] == [0, 1, 2, 3]
        assert {part["count"] for part in parts} == {6}
        assert sum(part["duration_ns"] for part in parts) > 0


def test_requests_of_few_samples_are_recorded_one_by_one_with_their_files(
    dataset: Path, tmp_path: Path
) -> None:
    with loading(dataset, trace=tmp_path) as loader:
        first = next(iter(loader))
        lengths = {
            sample: loader.job.place(sample).location.length for sample in first["sample"].tolist()
        }
    requests = [one for one in of_kind(events(tmp_path), "request") if one["step"] == 0]
    assert {int(one["sample"]): one["bytes"] for one in requests} == lengths
    for one in requests:
        assert Path(one["file"]).is_file()
        assert one["count"] is None
        assert one["duration_ns"] > 0


def test_the_slowest_sample_of_a_step_is_named(
    dataset: Path, pipeline: Pipeline, tmp_path: Path
) -> None:
    with loading(dataset, pipeline=pipeline, trace=tmp_path) as loader:
        list(loader)
    slow = [load for load in of_kind(events(tmp_path), "load") if load["sample"] is not None]
    assert {one["step"] for one in slow} >= {0, 1, 2, 3}, "and those that were loaded ahead"
    assert all(Path(one["file"]).is_file() for one in slow)


def test_requests_of_many_samples_are_added_up(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.stepdetail.RATE", 1.0)
    with loading(dataset, trace=tmp_path) as loader:
        list(loader)
    requests = of_kind(events(tmp_path), "request")
    assert sorted(one["step"] for one in requests if one["count"] == 6) == [1, 2, 3]
    assert all(one["sample"] is None for one in requests if one["count"] == 6)


def test_steps_are_recorded_of_a_loop_left_early_by_a_loader_that_nobody_closes(
    dataset: Path, tmp_path: Path
) -> None:
    loader = Loader(dataset, batch_size=6, trace=tmp_path)
    for batch in loader:
        if batch.step == 1:
            break
    del loader
    assert [step["step"] for step in of_kind(events(tmp_path), "step")] == [0, 1]


def test_a_folder_that_cannot_be_written_is_told_at_once(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write a trace"):
        Loader(dataset, batch_size=6, trace=tmp_path / "file")


def test_a_disk_that_is_full_under_the_trace_does_not_end_the_loop(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with loading(dataset, trace=tmp_path) as loader:
        monkeypatch.setattr(SegmentFile, "append", full)
        assert len(list(loader)) == len(loader)
    assert caplog.text.count("No space left on device") == 1


def test_a_folder_that_is_removed_comes_back(dataset: Path, tmp_path: Path) -> None:
    with loading(dataset, trace=tmp_path / "trace") as loader:
        next(iter(loader))
        shutil.rmtree(tmp_path / "trace")
        list(loader)
    assert {step["step"] for step in of_kind(events(tmp_path / "trace"), "step")} >= {4, 5, 6, 7}


def test_a_killed_job_leaves_all_but_its_last_second(dataset: Path, tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        loader = Loader(dataset, batch_size=6, workers=1, trace=tmp_path)
        list(loader)
        time.sleep(60)
        os._exit(1)
    try:
        eventually(lambda: any(map(count_events, tmp_path.glob("*.arrows"))))
        eventually(lambda: steps_in(tmp_path) >= {0, 1, 2})
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    trace = open_trace([tmp_path])
    found = pa.Table.from_batches(list(trace.batches()))
    assert {step["step"] for step in of_kind(found, "step")} >= {0, 1, 2}
    assert not trace.notes.problems


def steps_in(folder: Path) -> set[int]:
    return {step["step"] for step in of_kind(events(folder), "step")}
