"""The spool between a traced process and its launcher: nothing is lost unsaid, nothing grows."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.trace.events import Event
from headrace.tracing.collecting import Collector
from headrace.tracing.probe import spool as spools
from headrace.tracing.probe.spool import Spool


def event(number: int, **columns: Any) -> dict[str, Any]:
    return {"kind": "call", "begin_ns": number, "duration_ns": 1, "rank": 0, **columns}


class Collected:
    """A collector, and what it took."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self.collector = Collector(folder, self.events.append)

    def numbers(self) -> list[int]:
        self.collector.collect()
        return [event.begin_ns for event in self.events]


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    return Collected(tmp_path)


def test_each_record_is_there_as_soon_as_it_is_written(
    tmp_path: Path, collected: Collected
) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        spool.write(event(number))
        assert collected.numbers() == list(range(number + 1))
    assert {event.pid for event in collected.events} == {os.getpid()}


def test_files_that_were_taken_are_removed(
    tmp_path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "FILE_BYTES", 1000)
    spool = Spool(tmp_path)
    for number in range(100):
        spool.write(event(number))
    assert len(list(tmp_path.iterdir())) > 5
    assert collected.numbers() == list(range(100))
    assert len(list(tmp_path.iterdir())) <= 1


def test_what_nobody_takes_is_bounded_and_what_is_lost_is_counted(
    tmp_path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "FILE_BYTES", 1000)
    monkeypatch.setattr(spools, "MOST_WAITING", 3)
    spool = Spool(tmp_path)
    for number in range(200):
        spool.write(event(number))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 4000
    before = len(collected.numbers())
    spool.write(event(200))
    assert collected.numbers()[-1] == 200
    taken = collected.collector.statistics()
    assert (taken.events, taken.lost) == (before + 1, 200 - before)


def test_without_its_launcher_a_process_goes_on_unrecorded(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    spool = Spool(folder)
    spool.write(event(0))
    assert not folder.exists()


def test_a_record_that_a_kill_cut_off_is_left_out(tmp_path: Path, collected: Collected) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        spool.write(event(number))
    (file,) = tmp_path.iterdir()
    os.truncate(file, file.stat().st_size - 5)
    assert collected.numbers() == [0, 1]


def test_half_a_record_on_a_full_disk_costs_no_other(
    tmp_path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, write = Spool(tmp_path), os.write
    spool.write(event(0))
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: write(file, data[:10]))
        with pytest.raises(OSError, match="no more space"):
            spool.write(event(1))
    spool.write(event(2))
    assert collected.numbers() == [0, 2]
    assert collected.collector.statistics().lost == 1


def test_a_fork_writes_files_of_its_own(tmp_path: Path, collected: Collected) -> None:
    spool = Spool(tmp_path)
    spool.write(event(0))
    child = os.fork()
    if not child:
        spool.write(event(1))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    spool.write(event(2))
    assert sorted(collected.numbers()) == [0, 1, 2]
    assert {event.begin_ns: event.pid for event in collected.events}[1] == child
    assert not list(tmp_path.glob(f"{child}-*"))


def test_threads_write_whole_records(
    tmp_path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "FILE_BYTES", 5000)
    spool = Spool(tmp_path)

    def write(first: int) -> None:
        for number in range(first, first + 300):
            spool.write(event(number, name="x" * (number % 50)))

    threads = [threading.Thread(target=write, args=(first * 300,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(collected.numbers()) == list(range(1200))


def test_a_signal_handler_may_record_while_a_record_is_being_written(
    tmp_path: Path, collected: Collected
) -> None:
    spool = Spool(tmp_path)
    before = signal.signal(signal.SIGALRM, lambda *_: spool.write(event(10**9)))
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        until = time.monotonic() + 0.2
        written = 0
        while time.monotonic() < until:
            spool.write(event(written))
            written += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    numbers = [number for number in collected.numbers() if number < 10**9]
    assert sorted(numbers) == list(range(written))
    assert len(collected.events) > written


def test_a_program_that_closes_all_files_gets_no_record_into_its_own(
    tmp_path: Path, collected: Collected
) -> None:
    spool = Spool(tmp_path)
    spool.write(event(0))
    child = os.fork()
    if not child:
        spool.write(event(1))
        os.closerange(3, 1000)
        own = [os.open(tmp_path / f"own{number}", os.O_WRONLY | os.O_CREAT) for number in range(99)]
        spool.write(event(2))
        grandchild = os.fork()
        if grandchild:
            os.waitpid(grandchild, 0)
        else:
            spool.write(event(3))
        os.write(own[98], b"own")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(collected.numbers()) == [0, 1, 2, 3]
    assert {(tmp_path / f"own{number}").stat().st_size for number in range(98)} == {0}
