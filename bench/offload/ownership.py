"""Tells whose a process is: it belongs to the nearest forebear that is known by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import psutil


def parent_of(pid: int) -> int:
    """Return a process's parent; 0 when it is gone."""
    try:
        return psutil.Process(pid).ppid()
    except psutil.NoSuchProcess:
        return 0


class Ownership:
    """Sorts processes into groups by their forebears, and remembers.

    Args:
        roots: Process → group of it and all its descendants.
        parent: Returns a process's parent; 0 when there is none.
    """

    def __init__(self, roots: Mapping[int, str], parent: Callable[[int], int] = parent_of) -> None:
        self._known = dict(roots)
        self._parent = parent

    def sort(self, pids: Iterable[int]) -> dict[str, list[int]]:
        """Return group → its processes; those of no group are left out."""
        found: dict[str, list[int]] = {}
        for pid in pids:
            group = self._group(pid)
            if group:
                found.setdefault(group, []).append(pid)
        return found

    def _group(self, pid: int) -> str:
        if pid <= 1:
            return ""
        if pid not in self._known:
            self._known[pid] = self._group(self._parent(pid))
        return self._known[pid]
