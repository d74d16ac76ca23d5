"""Control groups of version 1 and 2: a host's CPU quota, the limits of its disk, its processes.

A host is one group. In version 1 it is a directory in each of several trees, in version 2 one
directory. Which values are written where is computed; only `Group` writes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.core.errors import ConfigError, DeadlineError
from testbed.disk_profiles import DiskLimits
from testbed.errors import TestbedError

PERIOD_US = 20_000
"""A host that used up its quota waits at most this long for more: short beside a sample [µs]."""

ENDING_S = 10.0
"""Within this time killed processes must be gone [s]."""

_POLL_S = 0.005

_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift; exec "$@"'
"""Not done between fork and exec in Python: that is unsafe where the caller has threads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trees:
    """Where control groups are mounted."""

    version: Literal[1, 2]
    cpu: Path
    cpuacct: Path
    io: Path | None
    """None: the kernel cannot limit disks."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """Each tree once."""
        return tuple(dict.fromkeys(path for path in (self.cpu, self.cpuacct, self.io) if path))


def find_trees(mountinfo: Path = Path("/proc/self/mountinfo")) -> Trees:
    """Return where this machine's control groups are; version 2 if it has the CPU's.

    Raises:
        ConfigError: There is no tree with a CPU controller.
    """
    mounts = [_split_mount(line) for line in mountinfo.read_text().splitlines()]
    for point, kind, _ in mounts:
        if kind == "cgroup2" and (found := _unified(point)):
            return found
    first = {
        option: point for point, kind, options in mounts if kind == "cgroup" for option in options
    }
    if "cpu" in first and "cpuacct" in first:
        return Trees(version=1, cpu=first["cpu"], cpuacct=first["cpuacct"], io=_blkio(first))
    raise ConfigError(
        "no control group tree with a CPU controller is mounted; mount one "
        "(`mount -t cgroup2 none /sys/fs/cgroup`), or run where systemd or a container engine did"
    )


class Group:
    """One control group, in all trees that matter.

    Args:
        trees: Where control groups are mounted.
        path: Its path in each of them, such as ``headrace-testbed-7/storage-1``.
    """

    def __init__(self, trees: Trees, path: str) -> None:
        self._trees = trees
        self._path = path

    @property
    def directories(self) -> tuple[Path, ...]:
        """Its directory in each tree."""
        return tuple(root / self._path for root in self._trees.roots)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return what starts ``argv`` in this group: it enters before its first instruction.

        The process that is started becomes ``argv`` itself, so its number stays.
        """
        lists = [str(directory / "cgroup.procs") for directory in self.directories]
        return ["/bin/sh", "-c", _ENTER, "entering", *lists, "--", *argv]

    def make(self) -> None:
        """Make it, and hand the controllers down to it.

        Raises:
            TestbedError: The kernel refuses.
        """
        for root in self._trees.roots:
            if self._trees.version == 2:
                for parent in reversed((root / self._path).relative_to(root).parents):
                    (root / parent).mkdir(exist_ok=True)
                    _write(root / parent / "cgroup.subtree_control", self._controllers)
            (root / self._path).mkdir(parents=True, exist_ok=True)

    def weigh(self, shares: int) -> None:
        """Let its processes have as much of a busy machine as this many ordinary processes.

        Groups compete as one each: without it a bed of many hosts had the part of one process.
        """
        for file, value in weight_settings(self._trees.version, shares):
            _write(self._trees.cpu / self._path / file, value)

    def limit_cpu(self, cpus: float) -> None:
        """Let its processes use this many cores at most."""
        for file, value in cpu_settings(self._trees.version, cpus):
            _write(self._trees.cpu / self._path / file, value)

    def limit_disk(self, device: str, limits: DiskLimits) -> None:
        """Limit what its processes do to a device (``MAJOR:MINOR``)."""
        if self._trees.io is None:
            raise ConfigError("this kernel cannot limit disks; leave `disk` out of the scenario")
        for file, value in disk_settings(self._trees.version, device, limits):
            _write(self._trees.io / self._path / file, value)

    def cpu_seconds(self) -> float:
        """Return the CPU time its processes used since it was made [s]."""
        if self._trees.version == 1:
            text = (self._trees.cpuacct / self._path / "cpuacct.usage").read_text()
            return int(text) / 1e9
        text = (self._trees.cpu / self._path / "cpu.stat").read_text()
        return int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6

    def members(self) -> set[int]:
        """Return its processes, and those of groups at any depth; none once it was removed."""
        found: set[int] = set()
        for directory in self.directories:
            for group, _, _ in os.walk(directory):
                with contextlib.suppress(OSError):
                    text = Path(group, "cgroup.procs").read_text()
                    found.update(int(line) for line in text.split())
        return found - {0}

    def end(self, *, longest_s: float = ENDING_S) -> None:
        """Kill all its processes and wait until they are gone.

        Raises:
            DeadlineError: Some are still there; the kernel holds them.
        """
        deadline = time.monotonic() + longest_s
        while alive := self.members():
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"processes {sorted(alive)} of {self._path} did not end within {longest_s:g} s "
                    "after SIGKILL; a disk may be hanging: see /proc/PID/stack"
                )
            time.sleep(_POLL_S)

    def remove(self) -> None:
        """Remove it, and groups at any depth, the deepest first; processes must have ended."""
        for directory in self.directories:
            for group, _, _ in os.walk(directory, topdown=False):
                _remove(Path(group))

    @property
    def _controllers(self) -> str:
        return "+cpu +io" if self._trees.io else "+cpu"


def weight_settings(version: int, shares: int) -> list[tuple[str, str]]:
    """Return the files and values of a weight."""
    if version == 2:
        return [("cpu.weight", str(min(10_000, 100 * shares)))]
    return [("cpu.shares", str(min(262_144, 1024 * shares)))]


def cpu_settings(version: int, cpus: float) -> list[tuple[str, str]]:
    """Return the files and values of a quota."""
    quota = max(1000, round(cpus * PERIOD_US))
    if version == 2:
        return [("cpu.max", f"{quota} {PERIOD_US}")]
    return [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]


def disk_settings(version: int, device: str, limits: DiskLimits) -> list[tuple[str, str]]:
    """Return the files and values of a disk's limits; what is None is set to no limit."""
    values = {
        ("read_bps", "rbps"): limits.read_bytes_per_s,
        ("write_bps", "wbps"): limits.write_bytes_per_s,
        ("read_iops", "riops"): limits.read_iops,
        ("write_iops", "wiops"): limits.write_iops,
    }
    if version == 2:
        words = [f"{short}={value or 'max'}" for (_, short), value in values.items()]
        return [("io.max", f"{device} {' '.join(words)}")]
    return [
        (f"blkio.throttle.{long}_device", f"{device} {value or 0}")
        for (long, _), value in values.items()
    ]


def limit_writeback(trees: Trees, device: str, limits: DiskLimits) -> None:
    """Limit what the kernel itself writes to a device in the background.

    In version 1 a write that was only put into the page cache is written later by a kernel thread
    of the root group, so the host's limit does not hold it. The root group gets the same limit,
    for this device alone. Version 2 charges such writes to who caused them.
    """
    if trees.version == 1 and trees.io is not None:
        for file, value in disk_settings(1, device, limits):
            if "write" in file:
                _write(trees.io / file, value)


def _unified(point: Path) -> Trees | None:
    controllers = (point / "cgroup.controllers").read_text().split()
    if "cpu" not in controllers:
        return None
    return Trees(version=2, cpu=point, cpuacct=point, io=point if "io" in controllers else None)


def _blkio(first: dict[str, Path]) -> Path | None:
    """Return the block tree if it can throttle."""
    tree = first.get("blkio")
    return tree if tree and (tree / "blkio.throttle.read_bps_device").exists() else None


def _split_mount(line: str) -> tuple[Path, str, list[str]]:
    """Return mount point, type and options of a line of ``mountinfo`` (proc(5))."""
    before, after = line.split(" - ", 1)
    kind, _, options = after.split()[:3]
    return Path(before.split()[4]), kind, options.split(",")


def _write(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        raise TestbedError(
            f"writing {value!r} to {file} failed ({error.strerror}); the testbed needs to be root "
            "in a machine or container whose control groups it may change"
        ) from error


def _remove(directory: Path) -> None:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        raise TestbedError(
            f"removing the control group {directory} failed ({error.strerror})"
        ) from error
