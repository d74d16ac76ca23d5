"""What a crew and its ranks ask the kernel for: memory of their own, and to belong to a host."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

from bench.checkpoints.orders import Place

MEMORY = b"/dev/shm"
"""Where memory that processes share is looked for."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NETWORK, _NEW_MOUNTS, _NEW_HOST_NAME = 0x40000000, 0x00020000, 0x04000000
_PRIVATE, _FOLLOWING, _WITH_ALL_BELOW, _BIND = 1 << 18, 1 << 19, 0x4000, 0x1000
_DIE_WITH_PARENT = 1


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends."""
    _call("prctl", _DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def take_own_memory() -> None:
    """Give this process and those that it forks a ``/dev/shm`` of their own.

    It is gone with the last of them, whatever ended it.
    """
    _call("unshare", _NEW_MOUNTS)
    _call("mount", None, b"/", None, _FOLLOWING | _WITH_ALL_BELOW, None)
    _call("mount", b"headrace-crew", MEMORY, b"tmpfs", 0, None)


def enter(place: Place) -> None:
    """Become a process of a host: of its control group, network, name and part of the memory."""
    for group in place.groups:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    network = os.open(place.namespace, os.O_RDONLY)
    _call("setns", network, _NEW_NETWORK)
    os.close(network)
    memory = Path(os.fsdecode(MEMORY), place.host)
    memory.mkdir(exist_ok=True)
    _call("unshare", _NEW_MOUNTS | _NEW_HOST_NAME)
    _call("mount", None, b"/", None, _PRIVATE | _WITH_ALL_BELOW, None)
    _call("mount", bytes(memory), MEMORY, None, _BIND, None)
    socket.sethostname(place.host)
    tempfile.tempdir = place.scratch


def _call(name: str, *arguments: Any) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
