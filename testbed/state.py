"""Which beds there are, and whose: one directory per bed, claimed before anything is made.

The directory appears with its record in it in one step (a rename), so two beds never share a
number, and what a killed owner left behind is always found. Who removes a bed holds a lock on
its directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.core.errors import ConfigError
from testbed.names import BEDS
from testbed.patience import until

BEDS_DIRECTORY = Path("/var/lib/headrace-testbed")
"""Where only root can put something; may be a link to a larger disk."""

LOCKED_S = 120.0
"""Longest wait for another process that removes the same bed [s]."""

_RECORD = "bed.json"
_CLAIM, _GONE = ".claim-", ".gone-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """The process that a bed belongs to."""

    pid: int
    started: int
    """When it started, as another process may get the same number [clock ticks since boot]."""

    @classmethod
    def of_this_process(cls) -> Owner:
        """Return the calling process."""
        return cls(pid=os.getpid(), started=_state_and_start(os.getpid())[1])

    def is_alive(self) -> bool:
        """Return whether it still runs; one that only waits to be collected does not."""
        try:
            state, started = _state_and_start(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state not in "ZX" and started == self.started


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What is written down about a bed before it is made."""

    name: str
    """The scenario's."""

    owner: Owner | None
    """None: it stays until it is taken down."""

    boot: str
    """The machine's start, whose namespaces and mounts a later one no longer has."""

    scenario: str = ""
    """The scenario as TOML, if the bed stays."""


class Registry:
    """The beds of this machine.

    Args:
        root: Where their directories are; only tests keep them elsewhere, as names of beds are
            unique within one registry.
    """

    def __init__(self, root: Path = BEDS_DIRECTORY) -> None:
        self.root = root.resolve()

    def directory(self, number: int) -> Path:
        """Return where a bed keeps its disks, files and logs."""
        return self.root / str(number)

    def claim(self, record: Record, *, has_room: Callable[[int], bool]) -> int:
        """Return the number of a new bed, whose directory holds the record.

        Args:
            record: What is written down.
            has_room: Whether the machine's networks leave room for a bed of this number.

        Raises:
            ConfigError: All numbers are taken.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        claim = self._half(_CLAIM)
        _write(claim, record)
        for number in random.sample(range(1, BEDS + 1), BEDS):
            if has_room(number):
                with contextlib.suppress(OSError):  # taken: a directory that is not empty
                    claim.rename(self.directory(number))
                    return number
        shutil.rmtree(claim)
        raise ConfigError(
            f"all {BEDS} beds are taken, or their networks (198.18.0.0/15) are used by another "
            "program; `python -m testbed status` lists beds, `ip route` networks"
        )

    def numbers(self) -> list[int]:
        """Return all beds that have a directory."""
        if not self.root.is_dir():
            return []
        return sorted(int(path.name) for path in self.root.iterdir() if path.name.isdigit())

    def record(self, number: int) -> Record | None:
        """Return what was written down; None where nothing readable is there."""
        try:
            content = (self.directory(number) / _RECORD).read_bytes()
            return msgspec.json.decode(content, type=Record)
        except (OSError, msgspec.DecodeError):
            return None

    def rewrite(self, number: int, record: Record) -> None:
        """Write something else down, in one step."""
        _write(self.directory(number), record)

    def is_abandoned(self, number: int) -> bool:
        """Return whether nobody will take this bed down any more."""
        record = self.record(number)
        if record is None or record.boot != this_boot():
            return True
        return record.owner is not None and not record.owner.is_alive()

    @contextlib.contextmanager
    def locked(self, number: int) -> Iterator[bool]:
        """Hold the right to remove a bed; False if it is gone already.

        Raises:
            DeadlineError: Another process has been removing it for too long.
        """
        directory = self.directory(number)
        try:
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            yield False
            return
        try:
            busy = f"another process has been removing bed {number} for long; end that process"
            until(lambda: _is_locked(handle), longest_s=LOCKED_S, what=busy)
            yield _is_same(directory, handle)
        finally:
            os.close(handle)

    def discard(self, number: int) -> None:
        """Give a number back, then delete the files; the bed is gone."""
        self.directory(number).rename(gone := self._half(_GONE) / "bed")
        shutil.rmtree(gone.parent)

    def drop_halves(self) -> None:
        """Remove what crashes in the middle of a claim or a removal left."""
        for path in (*self.root.glob(f"{_CLAIM}*"), *self.root.glob(f"{_GONE}*")):
            pid = path.name.split("-")[1]
            if not Path("/proc", pid).exists():
                shutil.rmtree(path, ignore_errors=True)  # another start may be doing the same

    def _half(self, kind: str) -> Path:
        """Return a new directory that is no bed, but tells whose it is."""
        return Path(tempfile.mkdtemp(prefix=f"{kind}{os.getpid()}-", dir=self.root))


def this_boot() -> str:
    """Return what tells this start of the machine from others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _write(directory: Path, record: Record) -> None:
    new = directory / f"{_RECORD}.new"
    new.write_bytes(msgspec.json.encode(record))
    new.rename(directory / _RECORD)


def _state_and_start(pid: int) -> tuple[str, int]:
    """Return a process's state and start (proc(5)); its name may hold spaces and brackets."""
    columns = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return columns[0], int(columns[19])


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(directory: Path, handle: int) -> bool:
    try:
        return os.path.samestat(directory.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
