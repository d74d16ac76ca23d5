"""Reads encoded samples for raw answers, beside the workers and within its own memory bound."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from headrace.agent.fasttier.file import FastFiles
from headrace.agent.fasttier.through import Errand, Passage, fetch
from headrace.agent.threads import DaemonThreads
from headrace.dataset.location import SampleLocation
from headrace.prepare.sample import Preparer

THREADS = 8
"""That read at the same time."""


class ByteBudget:
    """Lends bytes in the order in which they are asked for. Event loop's thread only."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._free = nbytes
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def lent(self, nbytes: int) -> AsyncIterator[None]:
        """Hold ``nbytes`` (at most the whole budget); waits until they are free."""
        taken = min(nbytes, self.nbytes)
        await self._take(taken)
        try:
            yield
        finally:
            self._free += taken
            self._wake()

    async def _take(self, nbytes: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((nbytes, turn))
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free += nbytes
            self._wake()
            raise

    def _wake(self) -> None:
        while self._queue:
            nbytes, turn = self._queue[0]
            if not turn.done():
                if nbytes > self._free:
                    return
                self._free -= nbytes
                turn.set_result(None)
            self._queue.popleft()


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sample as it is stored."""

    fields: dict[str, bytes]
    read_s: float
    """How long reading took, without waiting for a thread [s]."""

    passage: Passage
    """What became of the errand."""


class RawReader:
    """A small pool of threads for ranged reads."""

    def __init__(self) -> None:
        self._threads = DaemonThreads(THREADS, "headrace-raw")

    async def read(
        self,
        preparer: Preparer,
        location: SampleLocation,
        errand: Errand,
        fast: FastFiles,
        ended: Callable[[Passage | None], None],
    ) -> Encoded:
        """Return a sample's encoded fields.

        Args:
            preparer: Of the sample's source.
            location: Of the sample.
            errand: What the fast tier has to do with it.
            fast: Where the fast tier is read and written.
            ended: Called with what became of the errand, also when nobody waits any more.

        Raises:
            StaleIndexError: the file changed since it was indexed.
            StorageError: the bytes cannot be read.
        """
        loop = asyncio.get_running_loop()
        reading = partial(_read, preparer, location, errand, fast)
        reads = loop.run_in_executor(self._threads, reading)
        reads.add_done_callback(lambda done: ended(_passage_of(done)))
        return await asyncio.shield(reads)

    def close(self) -> None:
        """Let running reads end; start no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _passage_of(done: asyncio.Future[Encoded]) -> Passage | None:
    failed = done.cancelled() or done.exception() is not None
    return None if failed else done.result().passage


def _read(preparer: Preparer, location: SampleLocation, errand: Errand, fast: FastFiles) -> Encoded:
    begin = time.perf_counter()
    fetched = fetch(preparer, location, errand, fast)
    return Encoded(fetched.fields, time.perf_counter() - begin, fetched.passage)
