"""Appends step records to an Arrow stream file that can be read while it grows."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from stat import S_ISREG
from types import TracebackType

import pyarrow as pa

from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import CallerError, CorruptDataError, StorageError
from headrace.trace.reader import whole_batches_end
from headrace.trace.steps import FIELDS, StepRecord, arrow_schema

FLUSH_ROWS = 256
"""Rows that are held in memory at most."""

FLUSH_S = 1.0
"""A record that comes this long after the last write is written at once, with all before it [s]."""


class StepRecorder:
    """Writes the steps of one rank to one file. Not thread-safe: one thread records.

    The file is an Arrow IPC stream without an end mark, so that a later run of the same job goes
    on in it; what a killed run left half written is cut off then. What was written survives
    the process. A kill loses the records since the last write: those that came within the
    second after it.

    Raises:
        CallerError: the file is there and is not a step trace of this version, or is being
            written by another recorder.
        StorageError: the file cannot be written, or its folder is missing.
    """

    def __init__(self, path: str | Path, *, clock: Clock | None = None) -> None:
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._schema = arrow_schema()
        self._rows: list[tuple[object, ...]] = []
        self._file = self._open()
        if not self._file.tell():
            self._append(self._schema.serialize())
        self._written_at = self._clock.now()

    def record(self, step: StepRecord) -> None:
        """Take in one step; write when 256 rows or a second have come together.

        Raises:
            StorageError: writing failed, for want of space for instance.
        """
        self._rows.append(tuple(getattr(step, name) for name in FIELDS))
        if len(self._rows) >= FLUSH_ROWS or self._clock.now() - self._written_at >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write all records taken in so far, so that readers see them."""
        if self._rows:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
            ]
            self._append(pa.RecordBatch.from_arrays(columns, schema=self._schema).serialize())
            self._rows.clear()
        self._written_at = self._clock.now()

    def close(self) -> None:
        """Write what is left and close the file."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                with suppress(OSError):  # a forked process may hold the file open, and so the lock
                    fcntl.flock(self._file, fcntl.LOCK_UN)
                self._file.close()

    def __enter__(self) -> StepRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> FileIO:
        try:
            file = FileIO(self._path, "a+")
            try:
                _require_regular(file, self._path)
                _claim(file, self._path)
                end = whole_batches_end(self._path)
                file.truncate(end)
                file.seek(end)
            except BaseException:
                file.close()
                raise
        except CorruptDataError as error:
            raise CallerError(f"{error}; give the trace another path") from error
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        return file

    def _append(self, message: pa.Buffer) -> None:
        left = memoryview(message)
        try:
            while left.nbytes:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise _cannot_write(self._path, error) from error


def _require_regular(file: FileIO, path: Path) -> None:
    """Refuse what has no end or cannot be cut: a device, a pipe."""
    if not S_ISREG(os.fstat(file.fileno()).st_mode):
        raise CallerError(f"the trace {path} is a device or a pipe; give it a regular file")


def _claim(file: FileIO, path: Path) -> None:
    """Let no other recorder write the file; where files cannot be locked, the user is trusted."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CallerError(
            f"the trace {path} is being written by another loader; give each rank its own file"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


def _cannot_write(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write the trace {path}: {error.strerror}; name a file in a folder that is there, "
        "can be written and has space, or go without a trace"
    )
