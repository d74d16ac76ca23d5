"""Processes of a cluster, recognised by a mark in their command line.

A mark needs no bookkeeping that a crash could interrupt: a process carries it from its
first instant to its last, and no number that the kernel reuses is ever trusted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

POLL_S = 0.02


def mark(directory: Path) -> str:
    """Return the argument that every daemon of the cluster in ``directory`` carries."""
    return f"-Dheadrace.devhdfs={directory}"


def marked(directory: Path) -> list[int]:
    """Return the processes of the cluster in ``directory``."""
    wanted = mark(directory).encode()
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and wanted in _arguments(entry)
    ]


def _arguments(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # gone, or not ours to look at
        return []


def end(directory: Path, *, patience_s: float) -> int:
    """End the cluster's processes: asked for ``patience_s``, then killed. Return how many.

    Frozen ones are thawed first, or they would not hear it.
    """
    running = marked(directory)
    if running and patience_s > 0:
        for signal_number in (signal.SIGCONT, signal.SIGTERM):
            _send(running, signal_number)
        _wait_gone(directory, patience_s)
    _send(marked(directory), signal.SIGKILL)
    _wait_gone(directory, timeout_s=10.0)
    return len(running)


def _send(pids: Iterable[int], signal_number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)


def _wait_gone(directory: Path, timeout_s: float) -> None:
    """Wait until no process carries the mark; one that has ended carries none."""
    deadline = time.monotonic() + timeout_s
    while marked(directory) and time.monotonic() < deadline:
        time.sleep(POLL_S)
