"""How busy the CPUs of this process are with other work than the loader's."""

from __future__ import annotations

import os
import time

import psutil


class OtherWork:
    """Looks at the CPUs that this process may use. Not thread-safe."""

    def __init__(self) -> None:
        self._cpus = sorted(os.sched_getaffinity(0))
        self._at = time.monotonic()
        self._busy_s = self._busy()

    def share(self, own_s: float) -> float | None:
        """Return the part of the CPUs that others used since the last look, in [0, 1].

        Args:
            own_s: CPU time that the loader took meanwhile [s].

        None where too little time has passed to tell.
        """
        now, busy_s = time.monotonic(), self._busy()
        elapsed_s, spent_s = now - self._at, busy_s - self._busy_s - own_s
        if elapsed_s < LEAST_S:
            return None
        self._at, self._busy_s = now, busy_s
        return min(max(spent_s / (elapsed_s * len(self._cpus)), 0.0), 1.0)

    def _busy(self) -> float:
        times = psutil.cpu_times(percpu=True)
        used = (times[cpu] for cpu in self._cpus if cpu < len(times))
        return float(sum(sum(one) - one.idle - getattr(one, "iowait", 0.0) for one in used))


LEAST_S = 0.2
"""Shortest time over which use of CPUs is told: the kernel counts in hundredths [s]."""
