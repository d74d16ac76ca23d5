"""What a controller records: how long copies of checkpoints and orders for replicas took."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from roots_for_tests import QUICK, SOON, save_checkpoint, wait_over, wanted

from headrace.controller.controllerlog import ControllerLog, RecordedCarrier
from headrace.controller.journal import Journal
from headrace.controller.replicating.replicating import Replicating, ReplicatingConfig
from headrace.policy.hotspot.events import (
    CopiesSet,
    Figures,
    FileGone,
    HotFile,
    SetCopies,
    StoredFile,
)
from headrace.trace.opening import open_trace
from headrace.trace.recording import open_recording
from headrace.trace.segments import Origin

HOT = StoredFile(store="hdfs://nn", path="a/b")


def log_to(folder: Path) -> ControllerLog:
    return ControllerLog(open_recording(folder, Origin(role="controller")))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in open_trace([folder]).batches() for row in batch.to_pylist()]


def test_a_copy_is_recorded_chunk_by_chunk_and_when_it_appears(tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    nbytes = sum(file.stat().st_size for file in save_checkpoint(source, 1).iterdir())
    destination.mkdir()
    config = ReplicatingConfig(periods=SOON, limits=QUICK)
    with (
        closing(log_to(tmp_path / "trace")) as log,
        closing(Journal(None)) as journal,
        closing(Replicating(config, journal, log=log)) as running,
    ):
        running.begin("r", wanted(source, destination, once=True))
        wait_over(running, "r", timeout_s=20)
    found = rows(tmp_path / "trace")
    assert {row["file"] for row in found} == {str(destination / "checkpoint-1")}
    chunks = [row for row in found if row["name"] == "copy chunk"]
    assert sum(row["bytes"] for row in chunks) >= nbytes
    assert [row["name"] for row in found[-1:]] == ["publish copy"]
    assert all(row["duration_ns"] > 0 for row in found)


class _Carrier:
    def figures(self) -> Figures:
        raise NotImplementedError

    def look(self, file: HotFile) -> FileGone:
        return FileGone(file=file.file)

    def set_copies(self, order: SetCopies, file: HotFile) -> CopiesSet:
        return CopiesSet(file=order.file, copies=order.copies)

    def close(self) -> None:
        pass


def test_orders_for_replicas_are_recorded_with_their_number(tmp_path: Path) -> None:
    order = SetCopies(file=HOT, copies=7, expected=(3,), is_raise=True)
    file = HotFile(file=HOT, size=10, hot_bytes=10, readers=2)
    with closing(log_to(tmp_path)) as log:
        carrier = RecordedCarrier("hdfs://nn", _Carrier(), log)
        assert carrier.set_copies(order, file) == CopiesSet(file=HOT, copies=7)
        assert carrier.look(file) == FileGone(file=HOT)
    (row,) = rows(tmp_path)
    assert (row["name"], row["file"], dict(row["counts"])) == (
        "set copies",
        "hdfs://nn/a/b",
        {"copies": 7},
    )
