"""Measures how much CPU the agent may use, and who uses it now.

Two views are taken, and the tighter one counts. The CPUs of the affinity set, from
``/proc/stat``: all processes of the host. The control group's quota, where there is one:
what a container was given, whatever the host has left. Where that quota is guaranteed, the
host's view can be left out: neighbours who are busy with what is theirs take nothing away.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal, TypeAlias

from headrace.agent.cgroup import CpuGroup, GroupUse, find_group
from headrace.agent.processes import ProcessTimes
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import ConfigError
from headrace.policy.guard import CpuReading

CpuScope: TypeAlias = Literal["host", "group"]
"""Whose use of the CPU counts: everybody's on this host, or the control group's members' only."""

SHORTEST_S = 0.02
"""Readings closer together repeat the one before: the kernel counts in 10 ms ticks [s]."""

_IDLE = (3, 4)
"""Columns of ``/proc/stat`` that are not use: idle, and waiting for a disk (proc(5))."""

_GUEST = 8
"""First of the columns that are counted in others already."""


class CpuMeter:
    """Use of the CPU from one reading to the next. Not thread-safe.

    Args:
        cpus: The CPUs that count; None is the process's affinity set.
        proc: Where procfs is mounted.
        cgroup: Where the control groups are mounted; it may be missing.
        clock: Monotonic time.
        scope: Who counts as others; ``group`` looks at the host nevertheless if there is no quota.

    Raises:
        ConfigError: ``proc`` is not a procfs.
    """

    def __init__(
        self,
        *,
        cpus: Collection[int] | None = None,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        clock: Clock | None = None,
        scope: CpuScope = "host",
    ) -> None:
        self._scope = scope
        self._names = {f"cpu{number}" for number in (cpus or os.sched_getaffinity(0))}
        self._proc = proc
        self._clock = clock or SystemClock()
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._group = find_group(proc, cgroup)
        self._own, self._members = _process_times(proc), _process_times(proc)
        self._at: float | None = None
        self._busy_s = 0.0
        self._use: GroupUse | None = None
        self._latest = CpuReading(capacity_cores=1.0, others_cores=0.0, own_cores=0.0)

    def read(self, own: Collection[int]) -> CpuReading:
        """Return what was used since the last reading; the first one finds nothing used.

        Args:
            own: Process ids of the agent and of all its workers; some may have ended.
        """
        now = self._clock.now()
        elapsed = SHORTEST_S if self._at is None else now - self._at
        if elapsed < SHORTEST_S:
            return self._latest
        own_cores = self._own.spent_s(own) / elapsed
        host = self._host_others(own_cores, elapsed)
        use = self._group.use() if self._group else None
        group = self._group_others(use, own_cores, elapsed)
        if self._scope == "group" and use is not None:
            host = 0.0
        capacity = self._capacity(use)
        held_back = self._is_held_back(use)
        known = self._at is not None
        self._at, self._use = now, use
        self._latest = CpuReading(
            capacity_cores=capacity,
            others_cores=min(1.0, max(host, group)) * capacity if known else 0.0,
            own_cores=own_cores if known else 0.0,
            held_back=held_back,
        )
        return self._latest

    def _capacity(self, use: GroupUse | None) -> float:
        cores = float(len(self._names))
        return min(cores, use.quota_cores) if use else cores

    def _host_others(self, own_cores: float, elapsed: float) -> float:
        """Return others' share of the affinity set's CPUs."""
        before, self._busy_s = self._busy_s, self._host_busy_s()
        return max(0.0, (self._busy_s - before) / elapsed - own_cores) / len(self._names)

    def _group_others(self, use: GroupUse | None, own_cores: float, elapsed: float) -> float:
        """Return others' share of the group's quota."""
        if self._group is None or use is None:
            return 0.0
        members_s = self._members_s(self._group, use)
        return max(0.0, members_s / elapsed - own_cores) / use.quota_cores

    def _is_held_back(self, use: GroupUse | None) -> bool:
        """Return whether the quota kept the group's tasks waiting since the last reading."""
        return use is not None and self._use is not None and use.throttled_s > self._use.throttled_s

    def _members_s(self, group: CpuGroup, use: GroupUse) -> float:
        """Return the CPU that the group's processes used since the last reading [s]."""
        if use.used_s is None:
            return self._members.spent_s(group.members())
        before_s = self._use.used_s if self._use else None
        return 0.0 if before_s is None else use.used_s - before_s

    def _host_busy_s(self) -> float:
        """Return the time that the affinity set's CPUs were in use since the host started [s]."""
        busy = 0
        for line in (self._proc / "stat").read_text().splitlines():
            name, *columns = line.split()
            if name in self._names:
                counted = [int(column) for column in columns[:_GUEST]]
                busy += sum(counted) - sum(counted[column] for column in _IDLE)
        return busy / self._ticks_per_s


def _process_times(proc: Path) -> ProcessTimes:
    try:
        return ProcessTimes(proc)
    except OSError as error:
        raise ConfigError(
            f"the CPU cannot be watched without {proc}/uptime ({error.strerror}): mount procfs, or "
            "let the loaders transform by themselves, without an agent"
        ) from error
