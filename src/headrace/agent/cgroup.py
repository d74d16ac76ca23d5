"""The CPU quota of this process's control group, version 1 or 2, and what was used of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupUse:
    """Totals since the group was made."""

    quota_cores: float
    """CPU that the group may use; infinite without a quota [cores]."""

    throttled_s: float
    """Time its runnable tasks were held back, summed over CPUs [s]."""

    used_s: float | None
    """CPU used by its members [s]; None where the kernel does not add it up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuGroup:
    """One control group with a CPU quota."""

    quota: Path
    """Directory of its ``cpu`` controller."""

    usage: Path | None
    """Directory of its ``cpuacct`` controller (version 1), if that knows the same group."""

    def use(self) -> GroupUse | None:
        """Return the totals now; None when the group is gone."""
        try:
            if (self.quota / "cpu.max").exists():
                return self._use_v2()
            return self._use_v1()
        except (OSError, ValueError, KeyError):
            return None

    def members(self) -> list[int]:
        """Return the process ids in the group itself."""
        try:
            return [int(line) for line in (self.quota / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def _use_v1(self) -> GroupUse:
        used_s = None
        if self.usage is not None:
            used_s = int((self.usage / "cpuacct.usage").read_text()) / 1e9
        return GroupUse(
            quota_cores=_quota(self.quota),
            throttled_s=_statistics(self.quota)["throttled_time"] / 1e9,
            used_s=used_s,
        )

    def _use_v2(self) -> GroupUse:
        statistics = _statistics(self.quota)
        return GroupUse(
            quota_cores=_quota(self.quota),
            throttled_s=statistics["throttled_usec"] / 1e6,
            used_s=statistics["usage_usec"] / 1e6,
        )


def find_group(proc: Path, mount: Path) -> CpuGroup | None:
    """Return the group that limits this process most, itself or one above; None without a quota.

    Args:
        proc: Where procfs is mounted.
        mount: Where the control groups are mounted.
    """
    groups = list(_ancestors(_memberships(proc), mount))
    limited = [group for group in groups if _quota(group.quota) < inf]
    return min(limited, key=lambda group: _quota(group.quota), default=None)


def _memberships(proc: Path) -> dict[str, str]:
    """Return controller → path in its hierarchy; version 2's one hierarchy is ''."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return {}
    fields = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    return {name: path for _, names, path in fields for name in names.split(",")}


def _ancestors(memberships: dict[str, str], mount: Path) -> Iterator[CpuGroup]:
    if "cpu" in memberships:
        path = memberships["cpu"]
        accounted = memberships.get("cpuacct") == path
        for part in _upwards(path):
            yield CpuGroup(
                quota=mount / "cpu" / part, usage=mount / "cpuacct" / part if accounted else None
            )
    elif "" in memberships:
        for part in _upwards(memberships[""]):
            yield CpuGroup(quota=mount / part, usage=None)


def _upwards(path: str) -> list[str]:
    """Return the group's path and all above it, relative to the mount.

    In a container the mount often shows the container's own group as its root, although the
    path is the host's; the root is in the list, so that quota is found as well.
    """
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[:count]) for count in reversed(range(len(parts) + 1))]


def _quota(directory: Path) -> float:
    """Return a group's quota [cores]; infinite where it has none or is not there."""
    try:
        if (directory / "cpu.max").exists():
            quota, period = (directory / "cpu.max").read_text().split()
        else:
            quota = (directory / "cpu.cfs_quota_us").read_text().strip()
            period = (directory / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if quota not in ("max", "-1") else inf
    except (OSError, ValueError):
        return inf


def _statistics(directory: Path) -> dict[str, int]:
    lines = (directory / "cpu.stat").read_text().splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}
