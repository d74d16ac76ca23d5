"""Keeps two processes from copying to one destination: a file there names who does.

A store has no lock that frees itself, so the file says until when it holds and is renewed before
that. One that ran out holds no more, nor does one of this host whose process is gone. The clocks
of two hosts may differ by as much as it holds after its last renewal.

Each process has a file of its own, and looks at the others' after it wrote its own. So of two
that begin at the same time one at least sees the other, however slow the store is: never do both
hold the lock, though both may be refused.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from headrace.core.errors import CallerError, HeadraceError, NotFoundError
from headrace.storage.port import Storage

LOCKS = ".headrace/replicators"
"""Folder of the files, below the destination's root."""

HOLDS_S = 90.0
"""It holds for this long after its last renewal [s]."""

RENEW_S = 20.0
"""It is renewed this often [s]."""


class _Holder(msgspec.Struct, frozen=True, kw_only=True):
    owner: str
    host: str
    pid: int
    began: str
    """As ``_start_of``."""

    source: str
    until_at: float


class DestinationLock:
    """The right to copy to a root. For one thread.

    Args:
        destination: The store at the root.
        source: URL of what is copied there, for others to read.
        wall: Time since 1970 [s].
    """

    def __init__(
        self, destination: Storage, source: str, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._destination = destination
        self._source = source
        self._wall = wall
        self._owner = secrets.token_hex(8)
        self._path = f"{LOCKS}/{self._owner}.json"
        self._renewed_at: float | None = None

    def hold(self) -> None:
        """Take the lock, or renew it when it is time to; cheap otherwise.

        Raises:
            CallerError: another process has it; says which, and until when.
            StorageError: the destination does not answer.
        """
        is_new = self._renewed_at is None
        if is_new or not 0 <= self._wall() - (self._renewed_at or 0.0) < RENEW_S:
            self._require_alone()
            self._write()
            self._require_alone()
        if is_new:
            self._remove_those_over()

    def release(self) -> None:
        """Let others have it; not an error if it cannot be told, for it runs out."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        with suppress(HeadraceError, OSError):
            self._destination.delete(self._path)

    def _write(self) -> None:
        now = self._wall()
        held = _Holder(
            owner=self._owner,
            host=socket.gethostname(),
            pid=os.getpid(),
            began=_start_of(os.getpid()),
            source=self._source,
            until_at=now + HOLDS_S,
        )
        self._destination.write(self._path, msgspec.json.encode(held))
        self._renewed_at = now

    def _require_alone(self) -> None:
        """Let go of the lock where another process holds it."""
        for _, held in self._others():
            if held is not None and not self._is_over(held):
                self.release()
                raise self._held_by(held)

    def _remove_those_over(self) -> None:
        """Remove what processes that died left; they would see this one if they still lived."""
        for path, held in list(self._others()):
            if held is None or self._is_over(held):
                self._destination.delete(path)

    def _others(self) -> Iterator[tuple[str, _Holder | None]]:
        """Yield the other processes' files; None: it cannot be read, and says nothing."""
        try:
            paths = [info.path for info in self._destination.list(LOCKS)]
        except NotFoundError:
            return
        for path in paths:
            if path != self._path and path.endswith(".json"):
                yield path, self._read(path)

    def _read(self, path: str) -> _Holder | None:
        try:
            return msgspec.json.decode(self._destination.read(path), type=_Holder)
        except (NotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _held_by(self, held: _Holder) -> CallerError:
        left_s = held.until_at - self._wall()
        return CallerError(
            f"{self._destination.url} is copied to by process {held.pid} on {held.host}, from "
            f"{held.source}; end that one, or give another destination (if it is gone, its "
            f"lock runs out in {max(0.0, left_s):.0f} s)"
        )

    def _is_over(self, held: _Holder) -> bool:
        """Tell whether a lock holds no more: it ran out, or its process of this host is gone."""
        left_s = held.until_at - self._wall()
        # What holds for longer than any lock was written by a clock that was wrong.
        if not 0 < left_s <= 2 * HOLDS_S:
            return True
        return held.host == socket.gethostname() and _start_of(held.pid) != held.began


def _start_of(pid: int) -> str:
    """Return when a process of this host began, in ticks; empty: it runs no more.

    A number is given to another process some time; together with its start it names one.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
