"""Watches fsspec: requests of its file systems to storage, and questions about files.

Files that fsspec buffers are watched where they ask storage for bytes, below their cache. Local
files are seen by ``open``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from .tracer import Call, Tracer, Watcher

_QUESTIONS = ("exists", "find", "glob", "info", "isdir", "isfile", "ls", "open")
_READS = ("cat", "cat_file", "cat_ranges", "get_file")
_WRITES = ("pipe", "pipe_file", "put_file")
_LOCAL = ("file", "local")
_MARK = "_headrace_is_watched"


class RemoteFiles:
    """Watches fsspec in one process."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watcher = Watcher("requests of fsspec")

    def watch(self, module: Any) -> None:
        """Watch every file system, and every buffered file, as it is made."""
        making = type(module.AbstractFileSystem)
        buffered = self._buffered = module.AbstractBufferedFile
        making.__call__ = self._then(making.__call__, lambda _, made: self._watch_system(made))
        buffered.__init__ = self._then(buffered.__init__, lambda made, _: self._watch_cache(made))

    def _then(self, function: Any, watch: Callable[[Any, Any], None]) -> Any:
        """Return the function so that ``watch`` gets its first argument, and its result."""

        @functools.wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            self._watcher.try_to(watch, arguments[0], result)
            return result

        return watched

    def _watch_system(self, system: Any) -> None:
        protocols = _protocols(system)
        if any(protocol in _LOCAL for protocol in protocols) or _was_marked(system):
            return
        for name in _QUESTIONS:
            note = functools.partial(self._note_question, name, protocols[0])
            setattr(system, name, self._watcher.timed(getattr(system, name), note))
        for name in (*_READS, *_WRITES):
            note = functools.partial(self._note_request, name, protocols[0])
            setattr(system, name, self._watcher.timed(getattr(system, name), note))

    def _note_question(self, name: str, protocol: str, call: Call) -> None:
        file = _url(protocol, call.argument("path", 0))
        tally = self._tracer.tallies.current
        if tally is None:
            self._tracer.record("metadata", call.began, call.took, name=name, file=file)
        else:
            tally.opened(file, call.took)
        if name == "open":
            self._watch_file(call.result, file)

    def _note_request(self, name: str, protocol: str, call: Call) -> None:
        given = (*call.arguments, *call.named.values())
        paths, is_write = given[name == "put_file"], name in _WRITES
        written = given[0] if isinstance(given[0], dict) else given[1:2]
        self._record(
            call,
            nbytes=_size(written if is_write else call.result),
            is_write=is_write,
            name=name,
            file=_url(protocol, paths),
            count=None if isinstance(paths, str) else len(paths),
        )

    def _watch_cache(self, file: Any) -> None:
        """Watch what a buffered file asks storage for."""
        if hasattr(file, "cache"):
            note = functools.partial(self._note_range, _url(_protocols(file.fs)[0], file.path))
            file.cache.fetcher = self._watcher.timed(file.cache.fetcher, note)

    def _note_range(self, url: str | None, call: Call) -> None:
        nbytes, offset = _size(call.result), call.arguments[0]
        self._record(call, nbytes=nbytes, is_write=False, name="read", file=url, offset=offset)

    def _watch_file(self, opened: Any, url: str | None) -> None:
        """Watch what was opened, where it is no buffered file: those are watched already."""
        file = getattr(opened, "buffer", opened)
        if isinstance(file, self._buffered) or _was_marked(file):
            return
        for name in ("read", "read1", "readinto", "write"):
            if hasattr(file, name):
                note = functools.partial(self._note_transfer, name, url)
                setattr(file, name, self._watcher.timed(getattr(file, name), note))

    def _note_transfer(self, name: str, url: str | None, call: Call) -> None:
        nbytes = call.result if isinstance(call.result, int) else _size(call.result)
        if nbytes:
            self._record(call, nbytes=nbytes, is_write=name == "write", name=name, file=url)

    def _record(
        self, call: Call, *, nbytes: int | None, is_write: bool, file: str | None, **columns: Any
    ) -> None:
        tally = self._tracer.tallies.current
        if tally is not None and not is_write:
            tally.fetched(file, call.took, nbytes or 0)
        self._tracer.record_request(
            call.began, call.took, nbytes=nbytes, is_write=is_write, file=file, **columns
        )


def _protocols(system: Any) -> tuple[str, ...]:
    protocol = system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _was_marked(thing: Any) -> bool:
    """Mark what is watched from now on; tell whether it was before."""
    was_marked = getattr(thing, _MARK, False)
    setattr(thing, _MARK, True)
    return was_marked


def _url(protocol: str, path: Any) -> str | None:
    if not isinstance(path, str | os.PathLike):
        return None
    text = os.fsdecode(path)
    return text if "://" in text else f"{protocol}://{text}"


def _size(data: Any) -> int | None:
    """Return the size of bytes, or of all bytes in a collection; None where there are none."""
    if isinstance(data, bytes | bytearray | memoryview):
        return len(data)
    parts = data.values() if isinstance(data, dict) else data
    if not isinstance(parts, list | tuple) and not isinstance(data, dict):
        return None
    return sum(len(part) for part in parts if isinstance(part, bytes)) or None
