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
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_S = 0.02
_KILL_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One process that carries a mark."""

    pid: int
    name: str
    """The daemon's: ``datanode-1``."""

    is_frozen: bool


def mark(directory: Path, name: str) -> str:
    """Return the argument that a daemon of the cluster in ``directory`` carries."""
    return f"-Dheadrace.devhdfs={directory}/{name}"


def marked(directory: Path) -> list[Found]:
    """Return the processes of the cluster in ``directory``."""
    prefix = mark(directory, "").encode()
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    found = ((entry, _daemon_name(entry, prefix)) for entry in entries)
    return [
        Found(pid=int(entry.name), name=name, is_frozen=_is_frozen(int(entry.name)))
        for entry, name in found
        if name
    ]


def _daemon_name(process: Path, prefix: bytes) -> str:
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # gone, or not ours to look at
        return ""
    ours = (one.removeprefix(prefix) for one in arguments if one.startswith(prefix))
    name = next(ours, b"").decode()
    return "" if "/" in name else name  # else of a cluster in a directory below


def _is_frozen(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:  # gone, or not ours to look at
        return False


def end(directory: Path, *, patience_s: float) -> int:
    """End the cluster's processes: asked for ``patience_s``, then killed. Return how many.

    Frozen ones are thawed first, or they would not hear it.
    """
    running = marked(directory)
    if running and patience_s > 0:
        for number in (signal.SIGCONT, signal.SIGTERM):
            _send(running, number)
        _wait_gone(directory, patience_s)
    _send(marked(directory), signal.SIGKILL)
    _wait_gone(directory, _KILL_TIMEOUT_S)
    return len(running)


def _send(processes: Iterable[Found], number: signal.Signals) -> None:
    for one in processes:
        with suppress(ProcessLookupError):
            os.kill(one.pid, number)


def _wait_gone(directory: Path, timeout_s: float) -> None:
    """Wait until no process carries the mark; one that has ended carries none."""
    deadline = time.monotonic() + timeout_s
    while marked(directory) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
