"""The file that a traced process appends records to, and from which its launcher takes them.

Each record is written at once: what a killed process recorded is in the file. A record is its
length and a dictionary, of ``marshal``, which is the standard library's fastest and read only by
the launcher, from a folder that no other user can write to. Each file begins with a record of the
process; names are ``PID-BEGIN-NUMBER.spool``: a
process may become another program.
"""

from __future__ import annotations

import marshal
import os
import struct
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

SPOOL_VARIABLE = "HEADRACE_TRACE_SPOOL"
"""Environment variable that names the folder, to every process below the launcher."""

SUFFIX = ".spool"
LENGTH = struct.Struct("<I")
MARSHAL_VERSION = 2
"""Which every Python reads."""

FILE_BYTES = 1 << 20
"""At this size a file is left for the next [bytes]."""

MOST_WAITING = 32
"""Files that the launcher has not yet taken; what comes beyond is lost, and counted."""


_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Spool:
    """Writes the records of one process. Thread-safe; a fork begins files of its own.

    Args:
        folder: The launcher's; when it is gone, so is the launcher, and records are dropped.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._waiting: deque[dict[str, Any]] = deque()
        self._is_writing = False
        self._file: int | None = None
        self._number = self._nbytes = self._inode = self._began = self._lost = 0
        os.register_at_fork(after_in_child=self._begin_anew)

    def write(self, record: dict[str, Any]) -> None:
        """Append a record.

        Raises:
            OSError: it cannot be written, for want of space for instance.
        """
        with self._lock:
            self._waiting.append(record)
            if self._is_writing:  # this thread's signal handler, or a destructor, came in between
                return
            self._is_writing = True
            try:
                while self._waiting:
                    self._write(self._waiting.popleft())
            finally:
                self._is_writing = False

    def _write(self, record: dict[str, Any]) -> None:
        file = self._file if self._is_open() else self._open()
        if file is None:
            self._lost += 1
            return
        self._append(file, record)
        if self._nbytes >= FILE_BYTES:
            self._end(file)

    def _path(self, number: int) -> Path:
        return self._folder / f"{os.getpid()}-{self._began}-{number}{SUFFIX}"

    def _is_open(self) -> bool:
        """Tell whether the file is still this one: the program may have closed it unknowingly."""
        try:
            return self._file is not None and os.fstat(self._file).st_ino == self._inode
        except OSError:
            return False

    def _append(self, file: int, record: dict[str, Any]) -> None:
        body = marshal.dumps(record, MARSHAL_VERSION)
        message = LENGTH.pack(len(body)) + body
        written = os.write(file, message)
        self._nbytes += written
        if written < len(message):
            self._end(file)  # what follows half a record could not be read
            self._lost += 1
            raise OSError(f"{self._folder} has no more space")

    def _end(self, file: int) -> None:
        """Leave a file for the next."""
        self._file = None
        os.close(file)

    def _open(self) -> int | None:
        """Begin the next file; None: the launcher is too far behind, or gone."""
        if not self._number:
            self._began = time.time_ns()
        if self._path(self._number - MOST_WAITING).exists():
            return None
        try:
            file = os.open(self._path(self._number), _FLAGS, 0o600)
        except FileNotFoundError:
            return None
        self._file, self._inode, self._nbytes = file, os.fstat(file).st_ino, 0
        self._number += 1
        self._append(file, {"pid": os.getpid(), "lost": self._lost})
        self._lost = 0
        return file

    def _begin_anew(self) -> None:
        """Leave the parent's file to the parent."""
        self._lock = threading.RLock()
        self._waiting.clear()
        self._is_writing = False
        if self._file is not None and self._is_open():
            os.close(self._file)
        self._file = None
        self._number = self._lost = 0
