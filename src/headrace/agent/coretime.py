"""How long a thread has used a core, or waited for one: all but what it waited for storage."""

from __future__ import annotations

import os
import time
from pathlib import Path

SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Time on a core [ns], time in line for one [ns], turns (proc_pid_schedstat(5))."""


class CoreTime:
    """The kernel's count for the thread that makes this. For that thread.

    Where the kernel does not count waits (it has no ``schedstat``), only use is known.
    """

    def __init__(self, file: Path = SCHEDSTAT) -> None:
        try:
            self._fd: int | None = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = None

    def seconds(self) -> float:
        """Return the time since the thread began [s]; it takes 2 µs."""
        if self._fd is None:
            return time.thread_time()
        used_ns, waited_ns, _ = os.pread(self._fd, 128, 0).split()
        return (int(used_ns) + int(waited_ns)) / 1e9
