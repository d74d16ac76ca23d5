"""Watches safetensors: whole files, and files of which a program reads single tensors."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from .checkpoints import READ, SAVE, path_of, size_of
from .tracer import Call, Tracer, Watcher


class Safetensors:
    """Watches them in one process."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watcher = Watcher("uses of safetensors")

    def watch_files(self, module: Any) -> None:
        """Watch reads and saves of whole files."""
        for name, kind, place in (("load_file", READ, 0), ("save_file", SAVE, 1)):
            note = functools.partial(self._note_file, kind, f"{module.__name__}.{name}", place)
            setattr(module, name, self._watcher.timed(getattr(module, name), note))

    def watch_tensors(self, module: Any) -> None:
        """Watch reads of single tensors."""
        module.safe_open = _watched_class(module.safe_open, self._watcher, self._tracer)

    def _note_file(self, kind: str, name: str, place: int, call: Call) -> None:
        target = call.argument("filename", place)
        self._tracer.record(
            kind,
            call.began,
            call.took,
            name=name,
            file=path_of(target),
            bytes=size_of(target),
        )


def _watched_class(real: Any, watcher: Watcher, tracer: Tracer) -> type:
    """Return a class that opens what the real one opens, and adds up what it reads."""

    class safe_open:  # noqa: N801 - as the real one is called
        def __init__(self, filename: Any, *arguments: Any, **named: Any) -> None:
            began = time.perf_counter_ns()
            self._opened = real(filename, *arguments, **named)
            self._sum = None if watcher.is_inside else _Sum(filename, began)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._opened, name)

        def __enter__(self) -> Any:
            self._opened.__enter__()
            return self

        def __exit__(self, *raised: Any) -> Any:
            self._end()
            return self._opened.__exit__(*raised)

        def __del__(self) -> None:
            self._end()

        def get_tensor(self, name: str) -> Any:
            return self._timed(self._opened.get_tensor, name)

        def get_slice(self, name: str) -> Any:
            return _Slice(self._opened.get_slice(name), self._timed)

        def _timed(self, function: Callable[[Any], Any], argument: Any) -> Any:
            began = time.perf_counter_ns()
            tensor = function(argument)
            if self._sum is not None:
                took = time.perf_counter_ns() - began
                watcher.try_to(self._sum.add, took, getattr(tensor, "nbytes", 0))
            return tensor

        def _end(self) -> None:
            summed = self.__dict__.get("_sum")
            if summed is not None and summed.count:
                self._sum = None
                watcher.try_to(summed.record, tracer)

    return safe_open


class _Slice:
    """A tensor of which parts are read."""

    def __init__(self, real: Any, timed: Callable[[Callable[[Any], Any], Any], Any]) -> None:
        self._real = real
        self._timed = timed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __getitem__(self, part: Any) -> Any:
        return self._timed(self._real.__getitem__, part)


class _Sum:
    """Of what is read of one file while it is open."""

    def __init__(self, file: Any, began: int) -> None:
        self._file = file
        self._began = began
        self._took = time.perf_counter_ns() - began
        self._bytes = 0
        self.count = 0
        """Reads of tensors, or of parts."""

    def add(self, took: int, nbytes: int) -> None:
        """Add a read."""
        self.count += 1
        self._took += took
        self._bytes += nbytes

    def record(self, tracer: Tracer) -> None:
        """Record the reads as one event."""
        tracer.record(
            READ,
            self._began,
            self._took,
            name="safetensors.safe_open",
            file=path_of(self._file),
            bytes=self._bytes,
            counts={"tensors": self.count},
        )
