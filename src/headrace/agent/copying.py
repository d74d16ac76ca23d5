"""Copies chunks of checkpoints between the agent's stores, for a controller that says which.

It writes nowhere but below ``.headrace/staging`` of a root: who asks publishes by itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from headrace.agent.roots import Located, Roots
from headrace.agent.statistics import CopyStatistics
from headrace.agent.storages import OpenStores
from headrace.agent.threads import DaemonThreads
from headrace.core.clock import Clock
from headrace.core.errors import ConfigError
from headrace.policy.budget import Grant, WindowBudget
from headrace.transfer.chunk import PIECE_BYTES, ChunkDone, ChunkTask, copy_chunk
from headrace.transfer.plan import STAGING
from headrace.transfer.remote import LENGTH, PROGRESS_S, CopyCall, CopyProgress, code_of
from headrace.wire.serving import ApiError, read_message

log = logging.getLogger("headrace.agent.copying")

PARALLEL = 8
"""Chunks of one call that are copied at the same time."""

MOST_TASKS = 256
"""Chunks of one call."""

MOST_BYTES = 1 << 30
"""Of one call [bytes]."""


class StoppedError(Exception):
    """A copy is not to go on."""


class Pace:
    """What threads of one copy ask before each piece: calling it waits. Thread-safe.

    Each thread has one piece in the air at most: when it asks for the next, the last was moved.

    Args:
        bytes_per_s: Most in any second [B/s]; None: nothing is limited.
        clock: Monotonic time.

    Raises:
        ConfigError: less than can be kept to.
    """

    def __init__(self, bytes_per_s: float | None, clock: Clock) -> None:
        self._budget = None if bytes_per_s is None else WindowBudget(bytes_per_s)
        self._clock = clock
        self._changed = threading.Condition()
        self._grants: dict[int, Grant] = {}
        self.stopped = False
        self.moved_bytes = 0
        """Asked for so far [bytes]."""

    @property
    def piece_bytes(self) -> int:
        """Longest piece to be asked for [bytes]."""
        return PIECE_BYTES if self._budget is None else min(PIECE_BYTES, self._budget.piece_bytes)

    def __call__(self, nbytes: int) -> None:
        """Wait until a piece may be moved.

        Raises:
            StoppedError: it may not, ever.
        """
        with self._changed:
            self._end_last()
            while not (self.stopped or self._granted(nbytes)):
                pass
            if self.stopped:
                raise StoppedError
            self.moved_bytes += nbytes

    def end(self) -> None:
        """Tell that this thread has no piece in the air any more."""
        with self._changed:
            self._end_last()

    def stop(self) -> None:
        """Let nothing more be moved."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def _end_last(self) -> None:
        grant = self._grants.pop(threading.get_ident(), None)
        if self._budget is not None and grant is not None:
            self._budget.end(grant, self._clock.now())
            self._changed.notify_all()

    def _granted(self, nbytes: int) -> bool:
        """Take a piece; if there is no room for it, wait a while and return False."""
        if self._budget is None:
            return True
        now = self._clock.now()
        grant = self._budget.take_nowait(nbytes, now)
        if grant is None:
            wait_s = self._budget.free_at(nbytes, now) - now
            self._changed.wait(min(max(wait_s, 0.001), PROGRESS_S))
            return False
        self._grants[threading.get_ident()] = grant
        return True


class Copying:
    """Answers ``POST /v1/copies``. Event loop's thread only.

    Args:
        most: Calls that are answered at the same time; 0: none are.
        roots: What may be read, and below whose ``.headrace/staging`` may be written.
        stores: What is opened there.
        clock: Measures the rate.
        threads: For looking at paths.
    """

    def __init__(
        self,
        most: int,
        roots: Roots,
        clock: Clock,
        *,
        stores: OpenStores,
        threads: DaemonThreads,
    ) -> None:
        self._most = most
        self._roots = roots
        self._stores = stores
        self._clock = clock
        self._looking = threads
        self._copying = DaemonThreads(max(1, most) * PARALLEL, "headrace-copies")
        self._paces: set[Pace] = set()
        self._tasks: set[asyncio.Task[CopyProgress]] = set()
        self._chunks = self._read_bytes = self._failed = 0

    def routes(self) -> Sequence[Route]:
        """Return what is answered."""
        return [Route("/v1/copies", self._copy, methods=["POST"])]

    def close(self) -> None:
        """Stop all copies; pieces that are being moved end by themselves."""
        for pace in self._paces:
            pace.stop()
        self._copying.shutdown(wait=False, cancel_futures=True)

    def statistics(self) -> CopyStatistics:
        """Return counts since the start and levels now."""
        return CopyStatistics(
            running=len(self._paces),
            chunks=self._chunks,
            read_bytes=self._read_bytes + sum(pace.moved_bytes for pace in self._paces),
            failed=self._failed,
        )

    async def _copy(self, request: Request) -> CopyAnswer:
        call = await read_message(request, CopyCall)
        if not self._most:
            raise ApiError(403, "no-copies", "this agent copies nothing: it runs with --copies 0")
        _check(call)
        pace = _pace(call, self._clock)
        source = await self._looking.run(lambda: self._roots.locate(call.tasks[0].source))
        target = await self._looking.run(lambda: self._roots.locate(call.tasks[0].destination))
        if len(self._paces) >= self._most:
            raise ApiError(503, "busy", f"this agent copies {self._most} groups; ask again later")
        self._paces.add(pace)
        running = asyncio.ensure_future(self._run(call.tasks, source, target, pace))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)
        return CopyAnswer(running, pace)

    async def _run(
        self, tasks: Sequence[ChunkTask], source: Located, target: Located, pace: Pace
    ) -> CopyProgress:
        """Copy, until all is done or one fails; it ends when none of its threads runs any more."""
        turns = asyncio.Semaphore(PARALLEL)

        async def copy(task: ChunkTask) -> ChunkDone:
            async with turns:
                return await self._copying.run(partial(self._do, task, source, target, pace))

        try:
            results = await asyncio.gather(*map(copy, tasks), return_exceptions=True)
        finally:
            self._paces.discard(pace)
            self._read_bytes += pace.moved_bytes
        done = tuple(result for result in results if isinstance(result, ChunkDone))
        self._chunks += len(done)
        if len(done) == len(tasks):
            return CopyProgress(moved_bytes=pace.moved_bytes, done=done)
        self._failed += 1
        return _ended(pace, [error for error in results if isinstance(error, BaseException)])

    def _do(self, task: ChunkTask, source: Located, target: Located, pace: Pace) -> ChunkDone:
        if pace.stopped:
            raise StoppedError
        try:
            with self._stores.opened(source) as reads, self._stores.opened(target) as writes:
                return copy_chunk(task, reads, writes, pace, piece_bytes=pace.piece_bytes)
        except BaseException:
            pace.stop()
            raise
        finally:
            pace.end()


class CopyAnswer:
    """ASGI answer that tells how far a copy is; when the client leaves, the copy stops."""

    def __init__(self, running: asyncio.Task[CopyProgress], pace: Pace) -> None:
        self._running = running
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            headers = [(b"content-type", b"application/vnd.headrace.progress")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not leaving.done():
                await asyncio.wait(
                    {self._running, leaving},
                    timeout=PROGRESS_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._running.done():
                    await send(_body(self._running.result(), more=False))
                    return
                await send(_body(CopyProgress(moved_bytes=self._pace.moved_bytes), more=True))
        finally:
            leaving.cancel()
            self._pace.stop()


def _pace(call: CopyCall, clock: Clock) -> Pace:
    try:
        return Pace(call.bytes_per_s, clock)
    except ConfigError as error:
        raise _bad(str(error)) from error


def _check(call: CopyCall) -> None:
    if not 0 < len(call.tasks) <= MOST_TASKS:
        raise _bad(f"{len(call.tasks)} chunks; give 1 to {MOST_TASKS}")
    if len({(task.source, task.destination) for task in call.tasks}) != 1:
        raise _bad("the chunks are of several stores; make a call for each pair")
    if sum(task.length for task in call.tasks) > MOST_BYTES:
        raise _bad(f"more than {MOST_BYTES} B; make several calls")
    for task in call.tasks:
        if not task.staged.startswith(f"{STAGING}/") or ".." in task.staged.split("/"):
            raise _bad(f"staged={task.staged!r} is not below {STAGING}, where copies are made")


def _ended(pace: Pace, errors: Sequence[BaseException]) -> CopyProgress:
    """Return the message of a copy that failed, or that was stopped before anything did."""
    error = next((one for one in errors if not isinstance(one, StoppedError)), StoppedError())
    code = "stopped" if isinstance(error, StoppedError) else code_of(error)
    if code == "defect":
        log.error("a copy ended with a defect of headrace's", exc_info=error)
    said = str(error) or "the copy was stopped; ask again"
    return CopyProgress(moved_bytes=pace.moved_bytes, error=said, code=code)


def _body(progress: CopyProgress, *, more: bool) -> Message:
    data = msgspec.json.encode(progress)
    body = LENGTH.pack(len(data)) + data
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _bad(what: str) -> ApiError:
    return ApiError(400, "bad-request", f"the request makes no sense: {what}")
