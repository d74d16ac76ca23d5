"""CPU time of processes between two looks, although some start and some end in between."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_UTIME, _STIME, _START = 11, 12, 19
"""Places in ``/proc/PID/stat`` after the command's name (proc(5), minus 3)."""


class ProcessTimes:
    """Adds up what a changing set of processes used. Not thread-safe."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._seen: dict[tuple[int, int], int] = {}
        self._looked_at = self._uptime_ticks()

    def spent_s(self, pids: Iterable[int]) -> float:
        """Return the CPU that these processes used since the last call [s].

        One that started since counts in full; one seen for the first time although it is
        older counts from now on; one that has ended counts no more.
        """
        now = {}
        spent = 0
        for pid in pids:
            found = self._times(pid)
            if found is not None:
                start, ticks = found
                before = self._seen.get((pid, start), 0 if start >= self._looked_at else ticks)
                spent += ticks - before
                now[pid, start] = ticks
        self._seen = now
        self._looked_at = self._uptime_ticks()
        return spent / self._ticks_per_s

    def _times(self, pid: int) -> tuple[int, int] | None:
        """Return (start, used) in ticks; None when the process is gone."""
        try:
            text = (self._proc / str(pid) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()
        return int(fields[_START]), int(fields[_UTIME]) + int(fields[_STIME])

    def _uptime_ticks(self) -> int:
        uptime_s = float((self._proc / "uptime").read_text().split()[0])
        return round(uptime_s * self._ticks_per_s)
