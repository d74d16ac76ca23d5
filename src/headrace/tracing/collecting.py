"""Takes what traced processes wrote to their spools into a trace."""

from __future__ import annotations

import logging
import marshal
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.trace.events import Event
from headrace.tracing.probe.spool import LENGTH, SUFFIX

logger = logging.getLogger("headrace.trace")

_NAME = re.compile(rf"(\d+)-(\d+)-(\d+){re.escape(SUFFIX)}")
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Collected:
    """What was taken so far."""

    processes: int
    events: int
    lost: int
    """Events that processes could not write, because they came too fast."""


class Collector:
    """Reads the spools of one folder while processes write to them. For one thread.

    Args:
        folder: Of the spools.
        record: Takes each event.
    """

    def __init__(self, folder: Path, record: Callable[[Event], None]) -> None:
        self._folder = folder
        self._record = record
        self._files: dict[tuple[int, int, int], _SpoolFile] = {}
        self._ranks: dict[int, int | None] = {}
        self._processes: set[int] = set()
        self._events = self._lost = 0
        self._is_gone = False

    def collect(self) -> None:
        """Take everything that was written so far; files that are done are removed."""
        for place in self._find_files():
            file = self._files[place]
            is_done = self._is_done(place)
            for record in file.records():
                self._take(place[0], record)
            if is_done:
                file.remove()
                del self._files[place]

    def processes(self) -> dict[int, int | None]:
        """Return the live processes that write, each with its rank."""
        return {pid: self._ranks.get(pid) for pid in {pid for pid, _, _ in self._files}}

    def statistics(self) -> Collected:
        """Return what was taken so far."""
        return Collected(len(self._processes), self._events, self._lost)

    def _find_files(self) -> list[tuple[int, int, int]]:
        """Return the places of all files, in the order in which they were written."""
        for path in self._listed():
            name = _NAME.fullmatch(path.name)
            if name:
                place = int(name[1]), int(name[2]), int(name[3])
                if place not in self._files:
                    with suppress(FileNotFoundError):  # as the folder is being removed
                        self._files[place] = _SpoolFile(path)
        return sorted(self._files)

    def _listed(self) -> list[Path]:
        """Return what is in the folder, which somebody who tidies may have removed."""
        try:
            return list(self._folder.iterdir())
        except FileNotFoundError:
            if not self._is_gone:
                logger.warning(
                    "%s was removed: what is recorded from now on may be lost; keep it as long as "
                    "the program runs, or set TMPDIR to a place that nobody tidies",
                    self._folder,
                )
            self._is_gone = True
            return []

    def _is_done(self, place: tuple[int, int, int]) -> bool:
        """Tell whether nobody writes to a file any more."""
        pid, began, number = place
        return (pid, began, number + 1) in self._files or not _is_alive(pid)

    def _take(self, pid: int, record: dict[str, Any]) -> None:
        if "kind" not in record:
            self._processes.add(pid)
            self._lost += record["lost"]
            return
        self._events += 1
        self._ranks[pid] = record["rank"]
        self._record(Event(pid=pid, **record))


class _SpoolFile:
    """One file of a spool, and how far it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb", buffering=0)
        self._unread = b""

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the whole records that were not yet read."""
        while piece := self._file.read(_PIECE):
            data = self._unread + piece
            place = 0
            while place + LENGTH.size <= len(data):
                begin = place + LENGTH.size
                (nbytes,) = LENGTH.unpack_from(data, place)
                if begin + nbytes > len(data):
                    break
                yield marshal.loads(data[begin : begin + nbytes])
                place = begin + nbytes
            self._unread = data[place:]

    def remove(self) -> None:
        """Close the file and remove it."""
        self._file.close()
        self._path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
