"""Samples how busy the CPUs of both sides are, and with whose work."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuSample:
    """What happened since the sample before."""

    at_s: float
    """End of the interval, on the host's monotonic clock [s]."""

    busy: dict[str, float]
    """Side → share of its CPUs that was busy, with anything."""

    of: dict[str, float]
    """Group of processes → CPUs it kept busy, in CPUs."""


class CpuMeter:
    """Measures named sets of CPUs and named groups of processes. For one thread."""

    def __init__(self, sides: Mapping[str, Sequence[int]], *, interval_s: float = 0.5) -> None:
        self._sides = dict(sides)
        self._groups: dict[str, list[psutil.Process]] = {}
        self._interval_s = interval_s
        self._last_s = time.monotonic()
        self._last_cpus = psutil.cpu_times(percpu=True)
        self._spent: dict[tuple[str, int], float] = {}
        self.samples: list[CpuSample] = []

    def watch(self, group: str, pids: Iterable[int]) -> None:
        """Count these processes, and those they start, as ``group`` from now on."""
        self._groups[group] = [psutil.Process(pid) for pid in pids]
        self._spent = {key: spent for key, spent in self._spent.items() if key[0] != group}
        self._spent |= {(group, pid): spent for pid, spent in self._cpu_times(group).items()}

    def forget(self, group: str) -> None:
        """Count the group no longer."""
        self._groups.pop(group, None)

    def sample(self) -> CpuSample | None:
        """Take a sample if the interval has passed."""
        now = time.monotonic()
        if now - self._last_s < self._interval_s:
            return None
        elapsed, self._last_s = now - self._last_s, now
        sample = CpuSample(
            at_s=now,
            busy=self._busy(),
            of={group: self._newly_spent(group) / elapsed for group in self._groups},
        )
        self.samples.append(sample)
        return sample

    def _busy(self) -> dict[str, float]:
        before, self._last_cpus = self._last_cpus, psutil.cpu_times(percpu=True)
        shares = [
            busy_share(_idle_and_all(old), _idle_and_all(new))
            for old, new in zip(before, self._last_cpus, strict=True)
        ]
        return {
            side: sum(shares[cpu] for cpu in cpus) / len(cpus) for side, cpus in self._sides.items()
        }

    def _newly_spent(self, group: str) -> float:
        total = 0.0
        for pid, spent in self._cpu_times(group).items():
            total += max(0.0, spent - self._spent.get((group, pid), 0.0))
            self._spent[group, pid] = spent
        return total

    def _cpu_times(self, group: str) -> dict[int, float]:
        times: dict[int, float] = {}
        for root in self._groups[group]:
            for process in _tree(root):
                try:
                    spent = process.cpu_times()
                except psutil.Error:  # it ended while we looked
                    continue
                times[process.pid] = spent.user + spent.system
        return times


def busy_share(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Return the busy share between two readings of (idle, all) time; 0 when no time passed."""
    idle, passed = after[0] - before[0], after[1] - before[1]
    return 0.0 if passed <= 0 else min(1.0, max(0.0, 1 - idle / passed))


def _idle_and_all(times: psutil._common.scputimes) -> tuple[float, float]:
    idle = times.idle + getattr(times, "iowait", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return idle, sum(times) - guest  # guest time is part of user time already


def _tree(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []
