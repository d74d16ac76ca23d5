"""One file of a recorder: an Arrow stream of events without an end mark.

A segment is readable while it grows and after its writer was killed: it ends with a whole batch,
or with a half-written one that readers pass over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from headrace.trace.events import arrow_schema

SUFFIX = ".events.arrows"
ORIGIN_KEY = b"headrace.origin"
"""Under which a segment's metadata says who wrote it (JSON)."""

LOST_KEY = b"headrace.lost"
"""Under which a file's metadata says how many events are missing before it."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_END_MARK_BYTES = 8
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LETTERS = 160
_HOST_LETTERS = 64
_ROLE_LETTERS = 32
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_QUIET_S = 60.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who records: what an event does not say of itself is taken from here."""

    role: str
    """``loader``, ``checkpoint``, ``agent``, ``controller`` …"""

    job: str | None = None
    host: str | None = None
    """Null: this machine's name."""

    rank: int | None = None
    pid: int | None = None
    """Null: of the process that records, a fork too."""


class SegmentFile:
    """One segment that is being written. For one thread at a time."""

    def __init__(self, folder: Path, origin: Origin, *, lost: int = 0) -> None:
        """Create the file under a name that is free, and its folder where that is missing.

        Args:
            folder: To create it in.
            origin: Of its events.
            lost: Events that are missing before it.

        Raises:
            OSError: it cannot be created or written.
        """
        self.origin = origin
        """Of its events."""
        self._schema = arrow_schema().with_metadata(
            (arrow_schema().metadata or {})
            | {ORIGIN_KEY: msgspec.json.encode(origin), LOST_KEY: str(lost)}
        )
        self._header = self._schema.serialize().to_pybytes()
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._file = _create(folder, _stem(origin))
        self._says_lost = bool(lost)
        self._is_locked: bool | None = False
        self._is_torn = False
        self.nbytes = 0
        """What was written [bytes]."""
        self.events = 0
        """How many it holds."""
        try:
            self._is_locked = _is_free(self._file, fcntl.LOCK_EX)
            self._write(self._header)
        except OSError:
            self.close()
            raise

    @property
    def is_readable(self) -> bool:
        """Whether what is written can be read: nobody removed it, and it ends whole."""
        return not self._is_torn and os.fstat(self._file).st_nlink > 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Write a batch, all of it or nothing.

        Raises:
            OSError: it could not be written, for want of space for instance.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema, options=_OPTIONS) as stream:
            stream.write_batch(batch.replace_schema_metadata(self._schema.metadata))
        self._is_locked = self._is_locked or _is_free(self._file, fcntl.LOCK_EX)
        message = memoryview(sink.getvalue())[len(self._header) : -_END_MARK_BYTES]
        self._write(message)
        self.events += batch.num_rows

    def close(self) -> None:
        """End it; one without events is removed."""
        if not self.events and not self._says_lost:
            self.path.unlink(missing_ok=True)
        with suppress(OSError):  # a forked process may hold the file open, and so the lock
            fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)

    def leave_to_parent(self) -> None:
        """Close a forked process' copy; the file and its lock stay the parent's."""
        os.close(self._file)

    def _write(self, message: bytes | memoryview) -> None:
        left = memoryview(message)
        try:
            while left.nbytes:
                left = left[os.write(self._file, left) :]
        except OSError:
            self._is_torn = True
            os.ftruncate(self._file, self.nbytes)
            self._is_torn = False
            raise
        self.nbytes += len(message)


def later_segments(path: Path) -> Iterator[Path]:
    """Yield the segments that the process of a segment began after it, in their order."""
    stem, number = path.name.rpartition("-")[0], _number(path, SUFFIX)
    while number:
        number += 1
        later = path.with_name(f"{stem}-{number:06}{SUFFIX}")
        if not later.exists():
            return
        yield later


def is_growing(path: Path) -> bool:
    """Tell whether a recorder has a segment open; where nobody can lock, if it is a minute old."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        is_free = _is_free(file, fcntl.LOCK_SH)
        return time.time() - os.fstat(file).st_mtime < _QUIET_S if is_free is None else not is_free
    finally:
        os.close(file)


def _is_free(file: int, kind: int) -> bool | None:
    """Lock a file, and tell whether no other has it; None where files cannot be locked."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:  # a reader, too, has it for a moment
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


def free_path(folder: Path, stem: str, suffix: str) -> Path:
    """Return a path for a file whose name begins so and ends so, after all that are there."""
    stem = _UNNAMEABLE.sub("_", stem)[:_NAME_LETTERS]
    numbers = (_number(path, suffix) for path in folder.glob(f"{stem}-*{suffix}"))
    return folder / f"{stem}-{1 + max(numbers, default=0):06}{suffix}"


def _stem(origin: Origin) -> str:
    parts = [
        (origin.host or "host")[:_HOST_LETTERS],
        origin.role[:_ROLE_LETTERS],
        *([] if origin.rank is None else [f"rank{origin.rank}"]),
        f"pid{origin.pid}",
    ]
    return "-".join(parts)


def _create(folder: Path, stem: str) -> tuple[Path, int]:
    """Create a file of a number that is free: another host may have its name and process id."""
    while True:
        path = free_path(folder, stem, SUFFIX)
        with suppress(FileExistsError):
            return path, os.open(path, _FLAGS, 0o644)


def _number(path: Path, suffix: str) -> int:
    digits = path.name.removesuffix(suffix).rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0
