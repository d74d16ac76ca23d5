"""Watches files that the program opens with ``open``, and what it reads and writes through them.

``open`` gives the objects that it always gives; only the raw file at their bottom is one that
times its reads and writes, of which a buffered file makes one for each time that its buffer is
empty or full.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import io
import os
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from .runs import Run, Runs
from .tracer import Tracer, Watcher

_NO_DATA = ("/proc/", "/sys/", "/dev/")
_CODE_FOLDERS = ("/site-packages/", "/dist-packages/")
_CODE_SUFFIXES = (".py", ".pyc", ".pth", ".pyi")
_LEAVE = ("_exit", "execv", "execve")
"""Functions of ``os`` that leave a program without closing its files; loaders' workers do so."""

_LARGEST_BUFFER = 8 << 20
_BUFFERS_GREW = (3, 14)
_BINARY_MODES = ("rb", "wb", "ab", "xb")
_TEXT_MODES = ("r", "w", "a", "x", "rt", "wt", "at", "xt")


def watch_open(tracer: Tracer) -> None:
    """Put a watched ``open`` in the place of the real one."""
    opening = watched_open(tracer)
    builtins.open = io.open = opening
    atexit.register(opening.record_rest)
    for name in _LEAVE:
        setattr(os, name, _leaving(getattr(os, name), opening.record_rest))


def watched_open(tracer: Tracer) -> Any:
    """Return what does as ``open`` does, and records."""
    return _Open(io.open, tracer)


def _leaving(leave: Callable[..., NoReturn], record_rest: Callable[[], None]) -> Any:
    """Return what leaves the program as another function does."""

    @functools.wraps(leave)
    def watched(*arguments: Any, **named: Any) -> NoReturn:
        record_rest()
        leave(*arguments, **named)

    return watched


class _Open:
    """Stands for ``open``. No function, which would become a method where a class holds it."""

    def __init__(self, real: Callable[..., Any], tracer: Tracer) -> None:
        functools.update_wrapper(self, real)
        self.__module__ = "io"
        self._real = real
        self._tracer = tracer
        self._watcher = Watcher("files")
        self._runs = Runs(tracer, self._watcher)

    def record_rest(self) -> None:
        """Record what was done with files that are open: the process ends."""
        self._watcher.try_to(self._runs.end_all)

    def __call__(  # noqa: PLR0917 - as the real one
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if not _is_watched(file, mode, buffering, (encoding, errors, newline)):
            return self._real(file, mode, buffering, encoding, errors, newline, closefd, opener)
        began = time.perf_counter_ns()
        raw = _WatchedFile(os.fspath(file), mode[0], closefd, opener)
        try:
            self._watcher.try_to(raw.begin, self._tracer, self._runs, began)
            buffered = _buffered(raw, mode, buffering)
            if mode in _BINARY_MODES:
                return buffered
            text = io.TextIOWrapper(buffered, encoding, errors, newline)
            text.mode = mode  # type: ignore[misc]
        except BaseException:
            raw.close()
            raise
        return text

    def __reduce__(self) -> str:
        return "open"


class _WatchedFile(io.FileIO):
    """A file that times its reads and writes, once it has begun."""

    _run: Run | None = None
    _at = 0
    """Where in the file the next operation is [bytes]."""

    def begin(self, tracer: Tracer, runs: Runs, began: int) -> None:
        """Record that it was opened, and begin to time it if it holds data."""
        took = time.perf_counter_ns() - began
        if not stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            return
        file = os.fsdecode(self.name)
        if not file.startswith("/"):
            file = os.path.abspath(file)  # noqa: PTH100 - no objects: it is hot
        tally = tracer.tallies.current
        if tally is None:
            tracer.record("metadata", began, took, name="open", file=file)
        else:
            tally.opened(file, took)
        self._at = self.tell() if self.mode.startswith("a") else 0
        self._run = Run(runs, file)

    def readinto(self, buffer: Any) -> int | None:
        if self._run is None:
            return super().readinto(buffer)
        began = time.perf_counter_ns()
        nbytes = super().readinto(buffer)
        self._note(began, nbytes, is_write=False)
        return nbytes

    def read(self, size: int | None = -1) -> Any:
        if self._run is None:
            return super().read(size)
        began = time.perf_counter_ns()
        data = super().read(size)
        self._note(began, len(data or b""), is_write=False)
        return data

    def readall(self) -> Any:
        if self._run is None:
            return super().readall()
        began = time.perf_counter_ns()
        data = super().readall()
        self._note(began, len(data or b""), is_write=False)
        return data

    def write(self, data: Any) -> Any:
        if self._run is None:
            return super().write(data)
        began = time.perf_counter_ns()
        nbytes = super().write(data)
        self._note(began, nbytes, is_write=True)
        return nbytes

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = super().seek(offset, whence)
        return self._at

    def close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.end()
        super().close()

    def _note(self, began: int, nbytes: int | None, *, is_write: bool) -> None:
        took = time.perf_counter_ns() - began
        if nbytes and self._run is not None:
            self._run.add(began, took, self._at, nbytes, is_write)
            self._at += nbytes


def _is_watched(file: Any, mode: Any, buffering: Any, of_text: tuple[Any, ...]) -> bool:
    """Tell whether a call opens data by name, in one of the usual ways."""
    if mode not in _BINARY_MODES and mode not in _TEXT_MODES:
        return False
    is_size = isinstance(buffering, int) and (buffering == 0 or buffering > 1)
    if buffering != -1 and not (mode in _BINARY_MODES and is_size):
        return False
    if mode in _BINARY_MODES and of_text != (None, None, None):
        return False
    if mode in _TEXT_MODES and sys.flags.warn_default_encoding:
        return False
    try:
        path = os.fsdecode(file)
    except TypeError:
        return False
    return not (
        path.startswith(_NO_DATA)
        or path.endswith(_CODE_SUFFIXES)
        or any(folder in path for folder in _CODE_FOLDERS)
    )


def _buffered(raw: _WatchedFile, mode: str, buffering: int) -> Any:
    if buffering == 0:
        return raw
    if buffering == -1:
        buffering = getattr(raw, "_blksize", io.DEFAULT_BUFFER_SIZE)
        if sys.version_info >= _BUFFERS_GREW:
            buffering = max(min(buffering, _LARGEST_BUFFER), io.DEFAULT_BUFFER_SIZE)
    kind = io.BufferedReader if mode[0] == "r" else io.BufferedWriter
    return kind(raw, buffering)
