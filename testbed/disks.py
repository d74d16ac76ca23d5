"""Disks: one ext4 file system on a loop device each, throttled by the host's control group.

The file behind the device is sparse and goes through the machine's page cache, so the limits
alone decide how fast the disk is. The file system has no journal: kernel threads write journals,
and those belong to no host.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed.cgroups import Group, Trees, limit_writeback
from testbed.commands import call
from testbed.disk_profiles import DiskLimits, DiskSpec
from testbed.errors import TestbedError
from testbed.patience import until

UNMOUNTING_S = 10.0
"""Within this time a disk must let go after its host's processes have ended [s]."""

READ_AHEAD_KB = 2048
"""Sequential reads are fetched in pieces of this size, so that a disk of few operations a second
still reads fast in a row [KiB]."""

_MAKE = ["mkfs.ext4", "-q", "-F", "-m0", "-O^has_journal", "-Elazy_itable_init=1,nodiscard"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """A mounted disk."""

    directory: Path
    device: str
    """``MAJOR:MINOR``."""

    limits: DiskLimits

    def drop_cache(self) -> None:
        """Write out what is dirty and forget the files' pages, so that reads reach the disk."""
        call("sync", "--file-system", str(self.directory))
        for folder, _, files in os.walk(self.directory):
            for name in files:
                _forget(Path(folder) / name)


def make(file: Path, directory: Path, spec: DiskSpec, *, inside: Group) -> Disk:
    """Make a file system in a new file and mount it; it has no limits yet.

    Raises:
        TestbedError: There is no free loop device, or the kernel refuses.
    """
    with file.open("xb") as blank:
        blank.truncate(round(spec.size_gb * 1e9) // 4096 * 4096)
    call(*_MAKE, str(file), inside=inside)
    directory.mkdir(parents=True)
    call("mount", "-o", "loop,noatime", str(file), str(directory), inside=inside)
    disk = find(directory, spec)
    (_system(disk.device) / "queue/read_ahead_kb").write_text(str(READ_AHEAD_KB))
    return disk


def find(directory: Path, spec: DiskSpec) -> Disk:
    """Return a disk that was mounted before."""
    return Disk(directory=directory, device=_number(directory), limits=spec.limits)


def mounts_below(directory: Path) -> list[Path]:
    """Return what is mounted below a directory, the last one first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(_unescape(line.split()[4])) for line in lines]
    return [point for point in reversed(points) if directory in point.parents]


def loops_below(directory: Path) -> Iterator[str]:
    """Yield the loop devices (``MAJOR:MINOR``) whose files lie below a directory."""
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            backing = Path(file.read_text().strip().removesuffix(" (deleted)"))
            number = (file.parents[1] / "dev").read_text().strip()
        except OSError:  # it was detached at this moment
            continue
        if directory in backing.parents:
            yield number


def remove_below(directory: Path, trees: Trees) -> None:
    """Unmount all disks whose files lie below a directory; their users have ended.

    ``mount -o loop`` has the kernel detach the device with its last user.

    Raises:
        DeadlineError: A disk is still in use.
    """
    for device in loops_below(directory):
        limit_writeback(trees, device, DiskLimits())  # the next user of the device has none
    for point in mounts_below(directory):
        until(partial(_unmounted, point), longest_s=UNMOUNTING_S, what=_BUSY % point)
    gone = f"loop devices of {directory} did not detach; `losetup --list` shows them"
    until(lambda: not list(loops_below(directory)), longest_s=UNMOUNTING_S, what=gone)


_BUSY = "%s cannot be unmounted: a process uses it (`fuser -vm` names it); end that process"


def _unmounted(point: Path) -> bool:
    try:
        call("umount", str(point))
    except TestbedError:
        return point not in mounts_below(point.parent)
    return True


def _forget(file: Path) -> None:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # removed meanwhile, a link or a socket: it has no pages here
        return
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _number(directory: Path) -> str:
    device = directory.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def _system(device: str) -> Path:
    return Path("/sys/dev/block") / device


def _unescape(text: str) -> str:
    """Return a path as it is: some bytes are written in octal (proc(5))."""
    return text.encode().decode("unicode_escape").encode("latin-1").decode()
