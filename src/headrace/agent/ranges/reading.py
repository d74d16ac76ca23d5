"""Reads ranges of files in threads: once for all who ask at the same time, within a bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from headrace.agent.agentlog import AgentLog
from headrace.agent.ranges.memory import FileName, Piece, Versioned
from headrace.agent.raw import ByteBudget
from headrace.agent.storages import OpenStores
from headrace.agent.threads import DaemonThreads
from headrace.core.errors import CallerError, DeadlineError
from headrace.storage.port import Storage

T = TypeVar("T")

READS_AT_ONCE = 16
"""Reads for those who ask; leases read with as many threads of their own."""

LOOKS_AT_ONCE = 4
"""Files whose version is asked for at the same time; apart from reads, which may hang."""

LOOK_S = 0.5
"""Longest wait for a file's version, which is known from before [s]."""

PATIENCE_S = 60.0
"""Longest wait of one who asks [s]."""


class ChangedError(CallerError):
    """A file is not the one that was asked for: it was replaced."""


class BeyondEndError(CallerError):
    """A range ends beyond the end of its file."""


@dataclass(slots=True)
class _Flight:
    """One read that several wait for."""

    result: asyncio.Future[Versioned]
    users: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)


class RangeReading:
    """Reads pieces and ranges. Event loop's thread only.

    Args:
        budget: Lends the bytes that are on their way to those who ask.
        stores: Where they are read.
        log: Records reads.
    """

    def __init__(self, budget: ByteBudget, stores: OpenStores, log: AgentLog) -> None:
        self._log = log
        self._budget = budget
        self._stores = stores
        self._asked = DaemonThreads(READS_AT_ONCE, "headrace-ranges")
        self._leased = DaemonThreads(READS_AT_ONCE, "headrace-preloads")
        self._looking = DaemonThreads(LOOKS_AT_ONCE, "headrace-looks")
        self._looks: dict[FileName, asyncio.Future[str]] = {}
        self._flights: dict[Piece, _Flight] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.read_bytes = 0
        """Read of storage, for those who ask and for leases [bytes]."""

        self.shared = 0
        """Times that one who asked got what was being read, or sent, for another."""

    async def read(self, piece: Piece) -> Versioned:
        """Read a piece for a lease.

        Raises:
            ChangedError: the file is replaced all the time.
            BeyondEndError: it ends before the piece does.
            HeadraceError: it cannot be read.
        """
        return await self._counted(self._leased, piece)

    async def version(self, file: FileName) -> str | None:
        """Return the version of a file as the store tells it now; None: not within a moment.

        Raises:
            HeadraceError: it cannot be looked at.
        """
        look = self._looks.get(file)
        if look is None:
            look = self._looks[file] = asyncio.ensure_future(
                self._looking.run(partial(self._look, file))
            )
            look.add_done_callback(lambda done: self._looked(file, done))
        done, _ = await asyncio.wait({look}, timeout=LOOK_S)
        return look.result() if done else None

    @asynccontextmanager
    async def shared_read(self, wanted: Piece) -> AsyncIterator[Versioned]:
        """Read a range for one who asks, who holds its memory until the block ends.

        Raises: as ``read``; and DeadlineError, when it does not come in time.
        """
        flight = self._flights.get(wanted)
        if flight is None:
            flight = self._begin(wanted)
        else:
            self.shared += 1
        flight.users += 1
        try:
            yield await _in_time(asyncio.shield(flight.result), wanted.file)
        finally:
            flight.users -= 1
            flight.left.set()

    def close(self) -> None:
        """Start no more reads; those that run end by themselves."""
        for threads in (self._asked, self._leased, self._looking):
            threads.shutdown(wait=False, cancel_futures=True)
        for task in self._tasks:
            task.cancel()

    def _begin(self, wanted: Piece) -> _Flight:
        flight = _Flight(asyncio.get_running_loop().create_future())
        flight.result.add_done_callback(_retrieved)
        self._flights[wanted] = flight
        task = asyncio.ensure_future(self._fly(wanted, flight))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return flight

    async def _fly(self, wanted: Piece, flight: _Flight) -> None:
        """Read, and hold the memory until the last user has left; a hanging read holds it, too."""
        try:
            async with self._budget.lent(wanted.length):
                if flight.users:
                    await self._land(wanted, flight)
                while flight.users:
                    flight.left.clear()
                    await flight.left.wait()
        finally:
            del self._flights[wanted]
            flight.result.cancel()

    async def _land(self, wanted: Piece, flight: _Flight) -> None:
        try:
            flight.result.set_result(await self._counted(self._asked, wanted))
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            flight.result.set_exception(error)

    async def _counted(self, threads: DaemonThreads, piece: Piece) -> Versioned:
        begin = time.monotonic()
        found = await threads.run(partial(self._read, piece))
        self.read_bytes += piece.length
        self._log.read_range(piece.file.whole, piece.offset, piece.length, begin)
        return found

    def _looked(self, file: FileName, look: asyncio.Future[str]) -> None:
        del self._looks[file]
        _retrieved(look)

    def _look(self, file: FileName) -> str:
        with self._stores.opened(file.place) as storage:
            return storage.stat(file.path).version

    def _read(self, piece: Piece) -> Versioned:
        with self._stores.opened(piece.file.place) as storage:
            try:
                return _read_one_version(storage, piece)
            except ChangedError:  # it was being replaced just then
                return _read_one_version(storage, piece)


def _read_one_version(storage: Storage, piece: Piece) -> Versioned:
    path, offset, length = piece.file.path, piece.offset, piece.length
    before = storage.stat(path)
    if offset + length > before.size:
        raise BeyondEndError(
            f"{storage.url}/{path} has {before.size} bytes, but bytes {offset} to "
            f"{offset + length} were asked for; ask for less, or look whether it was truncated"
        )
    data = storage.read(path, offset, length)
    after = storage.stat(path)
    if (after.version, after.size) != (before.version, before.size):
        raise ChangedError(f"{storage.url}/{path} is being replaced; ask again")
    return Versioned(after.version, [memoryview(data)])


async def _in_time(coming: Awaitable[T], file: FileName) -> T:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await coming
    except TimeoutError as error:
        raise DeadlineError(
            f"{file.path} of {file.place.url} could not be read in {PATIENCE_S:g} s; does its "
            "storage hang, or is the agent asked for more than it may hold in memory at once?"
        ) from error


def _retrieved(result: asyncio.Future[Any]) -> None:
    """Look at what a read raised, which nobody may wait for any more."""
    if not result.cancelled():
        result.exception()
