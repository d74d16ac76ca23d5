"""Memory through which the ranks of one host share bytes that one of them read.

Each load of a checkpoint has a folder in the host's shared memory, each shared stretch of bytes a
file in it. Locks of the kernel (``flock``) say who reads what and who is still there, and are
gone the moment their holder is: nobody waits for a process that died, and what it left is removed
by the next one that looks. No process talks to another. Memory that fails or is removed while it
is in use, as systemd does when a user logs out, counts as full: each process reads for itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import stat
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from headrace.core.digest import ContentDigest
from headrace.core.errors import ConfigError

MAGIC = b"hr-share"
HEAD_BYTES = 64
"""Before the shared bytes: the magic, their length and their digest."""

POLL_S = 0.01
"""Between two looks whether another process is done [s]."""

YOUNG_S = 60.0
"""A folder without a lock is not removed before it is this old: it may be in the making [s]."""


_FILES = 2
"""Made for each stretch of bytes; file systems that do not count theirs say that they have none."""

_ALIVE = "alive"
"""File in each folder that all who use it hold a shared lock on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareLimits:
    """How ranks of one host share what they read."""

    folder: str = "/dev/shm"
    """A file system in memory that all ranks of the host see."""

    keep_free: float = 0.25
    """Part of it that is left to others; what does not fit is read by each rank for itself."""

    bundle_bytes: int = 32 << 20
    """About what one rank reads for the others at a time, at most [bytes]."""

    wait_s: float = 30.0
    """Longest wait for others while none of them gets anything done; then a rank reads for
    itself [s]."""

    def __post_init__(self) -> None:
        if not 0 <= self.keep_free < 1:
            raise ConfigError(f"sharing.keep_free={self.keep_free:g} must lie in [0, 1)")
        if self.bundle_bytes < 1 or self.wait_s <= 0:
            raise ConfigError(
                f"sharing.bundle_bytes={self.bundle_bytes} and wait_s={self.wait_s:g} must be "
                "above 0"
            )


class Claim:
    """The right to bring shared bytes, and the memory for them. For one thread.

    Leaving a ``with`` block without ``publish`` gives it up: another process may claim it.
    """

    def __init__(self, path: Path, lock: int, nbytes: int) -> None:
        self._path = path
        self._part = path.with_suffix(".part")
        self._lock = lock
        self._nbytes = nbytes
        self._map = _mapped_anew(self._part, HEAD_BYTES + nbytes)
        self.memory = memoryview(self._map)[HEAD_BYTES:]
        """Where the bytes go."""

    def publish(self) -> None:
        """Let the others see the bytes; if the folder is gone, nobody does."""
        self._map[:HEAD_BYTES] = _head(self.memory)
        with contextlib.suppress(FileNotFoundError):
            self._part.rename(self._path)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._part.unlink(missing_ok=True)
        os.close(self._lock)


class SharedFolder:
    """One load's folder. For one thread of each process, but for ``make_once``: that is for all."""

    def __init__(self, key: str, limits: ShareLimits) -> None:
        """Enter it; made if it is not there. What dead processes left of others is removed.

        Args:
            key: Names the load, equal in all processes that share it and in no others; letters
                and digits.
            limits: How to share.

        Raises:
            OSError: there is no such memory, or it is not this user's.
        """
        self._limits = limits
        base = Path(limits.folder) / f"headrace-checkpoints-{os.getuid()}"
        _make_private(base)
        self._folder = base / key
        alive = _enter(self._folder)
        self.leave = weakref.finalize(self, _leave, alive, self._folder, os.getpid())
        """To be called when this process is done with it; the last one removes it."""

        status = os.fstat(alive)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.host = f"{boot}/{status.st_dev}/{status.st_ino}"
        """What is equal for all processes that see this folder, and for no others."""

        sweep(base)

    def find(self, name: str) -> memoryview | None:
        """Return shared bytes, read-only; None: nobody has brought them (yet)."""
        path = self._folder / name
        try:
            with path.open("rb") as file:
                shared = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None
        if bytes(shared[:HEAD_BYTES]) == _head(shared[HEAD_BYTES:]):
            return shared[HEAD_BYTES:]
        path.unlink(missing_ok=True)
        return None

    def claim(self, name: str, nbytes: int) -> Claim | None:
        """Claim to bring bytes; None: another process does, they are there, or do not fit.

        Args:
            name: Of the bytes; letters and digits.
            nbytes: How many.
        """
        lock = self._lock(name) if self.has_room(nbytes) else None
        return None if lock is None else self._claim(name, nbytes, lock)

    def make_once(self, name: str, make: Callable[[], bytes]) -> bytes | memoryview:
        """Return bytes that one process of the host makes.

        Args:
            name: Of the bytes; letters and digits.
            make: Makes them; also called where sharing fails or takes too long.
        """
        give_up_at = time.monotonic() + self._limits.wait_s
        while time.monotonic() < give_up_at and self.has_room(0):
            shared = self.find(name)
            if shared is not None:
                return shared
            lock = self._lock(name)
            if lock is not None:
                return self._make(name, make, lock)
            time.sleep(POLL_S)
        return make()

    def _make(self, name: str, make: Callable[[], bytes], lock: int) -> bytes:
        try:
            data = make()
        except BaseException:
            os.close(lock)
            raise
        if not self.has_room(len(data)):
            os.close(lock)
            return data
        claim = self._claim(name, len(data), lock)
        if claim is not None:
            with claim:
                claim.memory[:] = data
                claim.publish()
        return data

    def _lock(self, name: str) -> int | None:
        """Return a descriptor that holds the lock of bytes; None: not now, or they are there."""
        path = self._folder / name
        try:
            lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:  # the folder is gone, or has no room for another file
            return None
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.exists():
                return lock
        os.close(lock)
        return None

    def _claim(self, name: str, nbytes: int, lock: int) -> Claim | None:
        """Get memory for bytes; None: there is not enough, and the lock is free again."""
        try:
            return Claim(self._folder / name, lock, nbytes)
        except OSError:
            os.close(lock)
            return None

    def has_room(self, nbytes: int) -> bool:
        """Tell whether that many bytes more may be shared."""
        try:
            space = os.statvfs(self._folder)
        except OSError:
            return False
        if space.f_files > 0 and space.f_favail < _FILES:
            return False
        free = space.f_bavail * space.f_frsize - nbytes
        return free >= self._limits.keep_free * space.f_blocks * space.f_frsize


def sweep(base: Path) -> None:
    """Remove the folders of loads of which no process is left."""
    for folder in base.iterdir():
        with contextlib.suppress(OSError):  # another process is faster, or it is in use
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    try:
        alive = os.open(folder / _ALIVE, os.O_RDWR)
    except FileNotFoundError:
        if time.time() - folder.stat().st_mtime > YOUNG_S:
            shutil.rmtree(folder)
        return
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(alive)


def _enter(folder: Path) -> int:
    """Return a descriptor that holds the folder's lock; the folder may be removed meanwhile."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            alive = os.open(folder / _ALIVE, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(alive, fcntl.LOCK_SH)  # waits for no more than a removal
            if _is_still(folder / _ALIVE, alive):
                return alive
            os.close(alive)


def _leave(alive: int, folder: Path, pid: int) -> None:
    if pid != os.getpid():
        return  # a forked child, in which the lock is that of the parent
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    os.close(alive)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _make_private(base: Path) -> None:
    """Make a folder that only this user can look into.

    Raises:
        PermissionError: somebody else made it.
    """
    base.mkdir(mode=0o700, exist_ok=True)
    status = base.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "it is not this user's alone", str(base))


def _mapped_anew(path: Path, nbytes: int) -> mmap.mmap:
    """Return a new file's memory.

    Raises:
        OSError: there is not enough; found out here, as touching it later would end the process.
    """
    with path.open("w+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, nbytes)
            return mmap.mmap(file.fileno(), nbytes)
        except OSError:
            path.unlink()
            raise


def _head(shared: memoryview) -> bytes:
    """Return what precedes shared bytes that are whole."""
    digest = ContentDigest(shared).digest()
    return (MAGIC + len(shared).to_bytes(8, "little") + digest).ljust(HEAD_BYTES, b"\0")
