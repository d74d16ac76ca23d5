"""Who speaks for a host: sockets of this process, and of a stranger."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.client.reporting.seat import Seat

STRANGER = 65534


@pytest.fixture
def name() -> str:
    return f"job-{secrets.token_hex(6)}"


@pytest.fixture
def seats(name: str) -> Iterator[tuple[Seat, Seat]]:
    first, second = Seat(name), Seat(name)
    yield first, second
    first.close()
    second.close()


def test_the_first_speaks_and_hears_the_others(seats: tuple[Seat, Seat]) -> None:
    first, second = seats
    assert (first.speaks, second.speaks) == (True, False)
    assert second.tell_speaker(b"hello") == "sent"
    ((sender, said),) = first.heard()
    assert said == b"hello"
    assert first.tell(sender, b"welcome") == "sent"
    assert [said for _, said in second.heard()] == [b"welcome"]


def test_the_place_is_free_when_its_holder_left(seats: tuple[Seat, Seat]) -> None:
    first, second = seats
    assert not second.try_take()
    first.close()
    assert second.tell_speaker(b"hello") == "nobody"
    assert second.try_take()
    assert second.speaks


def test_jobs_do_not_hear_each_other(name: str, seats: tuple[Seat, Seat]) -> None:
    other = Seat(f"{name}-other")
    assert other.speaks
    other.close()


def test_a_full_queue_is_not_waited_for(seats: tuple[Seat, Seat]) -> None:
    first, second = seats
    said = {second.tell_speaker(b"x" * 1000) for _ in range(5000)}
    assert said == {"sent", "busy"}
    assert len(list(first.heard())) > 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_what_another_user_says_is_not_heard(name: str, seats: tuple[Seat, Seat]) -> None:
    send = (
        "import os, socket, sys; os.setuid(int(sys.argv[2])); "
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
        "s.sendto(b'lies', chr(0) + sys.argv[1])"
    )
    address = f"headrace/{os.getuid()}/{name}"
    subprocess.run([sys.executable, "-c", send, address, str(STRANGER)], check=True, timeout=30)
    assert list(seats[0].heard()) == []


def test_a_forked_child_does_not_keep_the_place(name: str) -> None:
    seat = Seat(name)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        theirs.send(b"running")
        theirs.recv(1)
        os._exit(0)
    ours.recv(16)
    seat.close()
    successor = Seat(name)
    try:
        assert successor.speaks
    finally:
        ours.send(b"x")
        os.waitpid(child, 0)
        successor.close()
        ours.close()
        theirs.close()
