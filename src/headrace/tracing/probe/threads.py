"""What the kernel knows of a thread: the CPU it took and waited for, the bytes it read."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 256
_START_TIME = 19
"""Place of a process's start among the numbers after its name."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a thread took since it began; None: the kernel does not tell."""

    cpu_ns: int
    cpu_wait_ns: int | None
    """How long it could have run but for other threads [ns]."""

    read_bytes: int | None
    """By ``read`` and its like, of files, pipes and whatever else [bytes]."""


def read_thread() -> Reading:
    """Return what the calling thread took so far; takes about 10 µs.

    The kernel's files are opened each time: a program may close what it did not open itself.
    """
    scheduled = _first_line("/proc/thread-self/schedstat")
    transferred = _first_line("/proc/thread-self/io")
    return Reading(
        cpu_ns=time.thread_time_ns(),
        cpu_wait_ns=int(scheduled[1]) if scheduled else None,
        read_bytes=int(transferred[1]) if transferred else None,
    )


def process_began_ns() -> int:
    """Return when this process began, by ``CLOCK_BOOTTIME``, to 10 ms [ns]."""
    told = Path("/proc/self/stat").read_text()
    ticks = int(told.rpartition(")")[2].split()[_START_TIME])  # the name before may hold anything
    return ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def _first_line(path: str) -> list[bytes]:
    """Return the words of a file's first line; none where it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(file, _READ_BYTES).partition(b"\n")[0].split()
    finally:
        os.close(file)
