"""Keeps two processes from copying to one destination: a file there names who does.

A store has no lock that frees itself, so the file says until when it holds and is renewed before
that. Who finds one that ran out takes it over; so does who finds one of its own host whose
process is gone. The clocks of two hosts may differ by as much as it holds after its last renewal.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from headrace.core.errors import CallerError, NotFoundError
from headrace.storage.port import Storage

LOCK = ".headrace/replicator.json"
"""Where it lies, below the destination's root."""

HOLDS_S = 90.0
"""It holds for this long after its last renewal [s]."""

RENEW_S = 20.0
"""It is renewed this often [s]."""

_SETTLE_S = 0.2
"""Two that take it at the same moment see after this time who was the last to write [s]."""


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
        sleep: Waits.
    """

    def __init__(
        self,
        destination: Storage,
        source: str,
        *,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._destination = destination
        self._source = source
        self._wall, self._sleep = wall, sleep
        self._owner = secrets.token_hex(8)
        self._renewed_at: float | None = None

    def hold(self) -> None:
        """Take the lock, or renew it when it is time to; cheap otherwise.

        Raises:
            CallerError: another process has it; says which, and until when.
            StorageError: the destination does not answer.
        """
        if self._renewed_at is None:
            self._require_free(self._read())
            self._write()
            self._sleep(_SETTLE_S)
            self._require_free(self._read())
        elif not 0 <= self._wall() - self._renewed_at < RENEW_S:
            self._require_free(self._read())
            self._write()

    def release(self) -> None:
        """Let others have it; not an error if it cannot be told, for it runs out."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        with suppress(Exception):
            held = self._read()
            if held is not None and held.owner == self._owner:
                self._destination.delete(LOCK)

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
        self._destination.write(LOCK, msgspec.json.encode(held))
        self._renewed_at = now

    def _read(self) -> _Holder | None:
        try:
            return msgspec.json.decode(self._destination.read(LOCK), type=_Holder)
        except (NotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _require_free(self, held: _Holder | None) -> None:
        if held is None or held.owner == self._owner or self._is_over(held):
            return
        left_s = held.until_at - self._wall()
        raise CallerError(
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
