"""What processes hold now, as the kernel tells it: memory, descriptors, threads, mappings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_SHARED = ("/memfd:", "/dev/shm/", "/SYSV")
_KINDS = (
    ("socket:", "sockets"),
    ("pipe:", "pipes"),
    ("anon_inode:", "events"),
    ("/memfd:", "memory files"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """What some processes hold together."""

    rss_bytes: int
    """Pages of theirs in memory; those that several share count several times [bytes]."""

    pss_bytes: int
    """The same, each page counted once [bytes]."""

    own_bytes: int
    """Of these, anonymous and shared memory: what no file could be read again for [bytes]."""

    shared_bytes: int
    """Of its own, shared memory: what an agent keeps samples in, up to its ``--memory`` [bytes]."""

    handles: Counter[str]
    """Descriptors by kind, ``threads``, ``processes``, ``mappings``, ``shared mappings`` and
    ``temporary files``."""


def vitals(pid: int, temporary: Path) -> Vitals:
    """Return what a process and all it started hold.

    Args:
        pid: Of the process.
        temporary: Folder in which they make temporary files.
    """
    pids = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    left = sum(len(files) for _, _, files in os.walk(temporary))
    memory: Counter[str] = Counter()
    handles: Counter[str] = Counter({"temporary files": left})
    for one in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            memory += _memory(Path(f"/proc/{one}"))
            handles += _handles(Path(f"/proc/{one}"))
    return Vitals(
        rss_bytes=memory["Rss"],
        pss_bytes=memory["Pss"],
        own_bytes=memory["Pss_Anon"] + memory["Pss_Shmem"],
        shared_bytes=memory["Pss_Shmem"],
        handles=handles,
    )


def _memory(process: Path) -> Counter[str]:
    """Return the kernel's sums over a process's mappings [bytes]."""
    lines = (process / "smaps_rollup").read_text().splitlines()[1:]
    named = (line.split()[:2] for line in lines)
    return Counter({name.rstrip(":"): int(kib) * 1024 for name, kib in named})


def _handles(process: Path) -> Counter[str]:
    found = Counter(map(_kind, _descriptors(process)))
    found["processes"] = 1
    found["threads"] = sum(1 for _ in (process / "task").iterdir())
    mappings = (process / "maps").read_text().splitlines()
    found["mappings"] = len(mappings)
    found["shared mappings"] = sum(any(name in line for name in _SHARED) for line in mappings)
    return found


def _descriptors(process: Path) -> Iterable[str]:
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            yield str(descriptor.readlink())


def _kind(target: str) -> str:
    """Return what kind of thing a descriptor is open on."""
    for prefix, kind in _KINDS:
        if target.startswith(prefix):
            return kind
    return "removed files" if target.endswith(" (deleted)") else "files"
