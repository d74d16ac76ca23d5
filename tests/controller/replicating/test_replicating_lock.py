"""Only one process copies to a destination, and none that died keeps the others from it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.controller.replicating.lock import HOLDS_S, LOCKS, RENEW_S, DestinationLock
from headrace.core.errors import CallerError
from headrace.storage.local import LocalStorage


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1e9

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def destination(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def wall() -> Hand:
    return Hand()


def lock(destination: LocalStorage, wall: Hand) -> DestinationLock:
    return DestinationLock(destination, "/source", wall=wall)


def files(destination: LocalStorage) -> list[str]:
    """Return the paths of all holders' files."""
    return [info.path for info in destination.list(LOCKS)]


def held_elsewhere(destination: LocalStorage, **changes: object) -> None:
    """Let a process of another host hold the lock."""
    (path,) = files(destination)
    held = json.loads(destination.read(path)) | {"owner": "other", "host": "far"} | changes
    destination.delete(path)
    destination.write(f"{LOCKS}/other.json", json.dumps(held).encode())


def test_a_second_holder_is_told_who_has_it(destination: LocalStorage, wall: Hand) -> None:
    lock(destination, wall).hold()
    with pytest.raises(CallerError, match=f"process {os.getpid()} on .* from /source"):
        lock(destination, wall).hold()


def test_it_is_free_after_its_release(destination: LocalStorage, wall: Hand) -> None:
    first = lock(destination, wall)
    first.hold()
    first.release()
    lock(destination, wall).hold()
    first.release()
    assert len(files(destination)) == 1


def test_one_of_another_host_runs_out(destination: LocalStorage, wall: Hand) -> None:
    lock(destination, wall).hold()
    held_elsewhere(destination)
    wall.at += HOLDS_S - 1
    with pytest.raises(CallerError, match="runs out in 1 s"):
        lock(destination, wall).hold()
    wall.at += 2
    lock(destination, wall).hold()


def test_it_is_renewed_before_that(destination: LocalStorage, wall: Hand) -> None:
    mine = lock(destination, wall)
    for _ in range(20):
        mine.hold()
        wall.at += RENEW_S
    with pytest.raises(CallerError, match="is copied to by"):
        lock(destination, wall).hold()


def test_who_lost_it_does_not_take_it_back(destination: LocalStorage, wall: Hand) -> None:
    mine = lock(destination, wall)
    mine.hold()
    wall.at += HOLDS_S + 1
    held_elsewhere(destination, until_at=wall.at + HOLDS_S)
    with pytest.raises(CallerError, match="on far"):
        mine.hold()


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_keeps_nobody_out_for_long(
    destination: LocalStorage, wall: Hand, jump_s: float
) -> None:
    lock(destination, wall).hold()
    held_elsewhere(destination)
    wall.at += jump_s
    lock(destination, wall).hold()


def test_a_process_of_this_host_that_died_holds_nothing(
    destination: LocalStorage, wall: Hand
) -> None:
    lock(destination, wall).hold()
    child = subprocess.Popen([sys.executable, "-c", ""])
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    held_elsewhere(destination, host=socket.gethostname(), pid=child.pid)
    lock(destination, wall).hold()
    child.wait(5)


def test_a_lock_that_cannot_be_read_is_none(destination: LocalStorage, wall: Hand) -> None:
    destination.write(f"{LOCKS}/other.json", b"{}")
    lock(destination, wall).hold()
    assert f"{LOCKS}/other.json" not in files(destination)


def test_of_two_that_begin_at_once_both_never_hold_it(
    destination: LocalStorage, wall: Hand
) -> None:
    first, second = lock(destination, wall), lock(destination, wall)
    write = second._write

    def write_late() -> None:
        first.hold()  # after the second one looked, and before it wrote
        write()

    second._write = write_late  # type: ignore[method-assign]
    with pytest.raises(CallerError, match="is copied to by"):
        second.hold()
    wall.at += RENEW_S
    first.hold()
