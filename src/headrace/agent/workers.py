"""The pool of worker processes: hands out tasks, ends what runs too long, replaces what died."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from headrace.agent.arena import Arena, Extent
from headrace.agent.fasttier.file import NO_FILES, FastFiles
from headrace.agent.tasks import (
    LENGTH,
    MAX_MESSAGE_BYTES,
    Bundle,
    ClosePipeline,
    Failed,
    FromWorker,
    MoreMemory,
    OpenPipeline,
    Outcome,
    Prove,
    Ready,
    Task,
    TooLarge,
    ToWorker,
    Work,
    decode_for_agent,
    encode,
    name_of,
)
from headrace.storage.opening import WAIT_VARIABLES

log = logging.getLogger("headrace.agent.workers")

START_TIMEOUT_S = 60.0
PROOF_S = 60.0
"""Least time for the golden vectors: never hostile, but slow where the host is busy [s]."""
_SETTLED_S = 5.0
_FIRST_DELAY_S = 0.05
_LONGEST_DELAY_S = 5.0
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "TOKIO_WORKER_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
"""Without the last two, threads that read a store reserve 1.2 GiB of a worker's address space on a
host of two CPUs, and more on a larger one; with them 0.3 GiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLimits:
    """What one worker may use."""

    count: int
    """Processes."""

    memory_bytes: int = 2 << 30
    """Address space beyond libraries and arena [bytes]."""

    task_s: float = 60.0
    """A task that runs longer is ended with its worker [s]."""

    fast: FastFiles = NO_FILES
    """Where the fast tier is read and written."""


Report = Callable[[Outcome | TooLarge], None]


class WorkerPool:
    """Workers of one agent. Used from the event loop's thread only.

    Args:
        arena: Shared with every worker.
        limits: How many, and what each may use.
        report: Called with what becomes of each task that was submitted, in the end exactly
            one outcome each.
    """

    def __init__(self, arena: Arena, limits: WorkerLimits, report: Report) -> None:
        self._arena = arena
        self._limits = limits
        self._report = report
        self._sources: dict[int, OpenPipeline] = {}
        self._closing: set[int] = set()
        """Sources to be forgotten once no task of them waits: one may go on for another job."""
        self._waiting: deque[Bundle] = deque()
        self._idle: deque[_Worker] = deque()
        self._live: set[_Worker] = set()
        self._by_ticket: dict[int, _Worker] = {}
        self._ready = asyncio.Event()
        self.restarts = 0

    @property
    def is_busy(self) -> bool:
        """Whether a worker works, or something waits for one."""
        return bool(self._by_ticket or self._waiting)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the live workers."""
        return tuple(worker.process.pid for worker in self._live)

    async def run(self) -> None:
        """Keep all workers alive until cancelled; none is left afterwards."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._limits.count):
                group.create_task(self._keep_one_alive())
                if number == 0:  # the first is ready sooner when it starts alone
                    await self._first_is_ready()

    def open_source(self, message: OpenPipeline) -> None:
        """Let every worker, also later ones, make samples of a source."""
        self._sources[message.source] = message
        for worker in self._live:
            worker.send(message)

    def close_source(self, source: int) -> None:
        """Let every worker forget a source after those of its tasks that wait; none may follow."""
        self._closing.add(source)
        self._close_sources()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Let one worker run tasks, one after another, as soon as it is free."""
        self._waiting.append(Bundle(works=tuple(tasks)))
        self._assign()

    def submit_first(self, work: Prove) -> None:
        """Run this before whatever waits for a worker."""
        self._waiting.appendleft(Bundle(works=(work,)))
        self._assign()

    def grant(self, ticket: int, extents: tuple[Extent, ...]) -> None:
        """Answer a task that asked for more memory; no extents: give it up."""
        worker = self._by_ticket.get(ticket)
        if worker is not None:
            worker.owes[ticket] = msgspec.structs.replace(worker.owes[ticket], extents=extents)
            worker.send(MoreMemory(ticket=ticket, extents=extents))

    async def _first_is_ready(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._ready.wait()

    async def _keep_one_alive(self) -> None:
        delay = _FIRST_DELAY_S
        while True:
            begin = time.monotonic()
            try:
                why = await self._run_one()
            except OSError as error:
                why = f"no process could be started: {error}"
            self.restarts += 1
            settled = time.monotonic() - begin > _SETTLED_S
            delay = _FIRST_DELAY_S if settled else min(delay * 2, _LONGEST_DELAY_S)
            log.warning("a worker ended (%s); another starts in %.2f s", why, delay)
            await asyncio.sleep(delay)

    async def _run_one(self) -> str:
        """Start a worker, wait until it is gone, and return why."""
        worker = await self._spawn()
        self._live.add(worker)
        try:
            for message in self._sources.values():
                worker.send(message)
            await worker.lost
        finally:
            self._live.discard(worker)
            with contextlib.suppress(ValueError):
                self._idle.remove(worker)
            await worker.end()
            self._give_up_tasks(worker)
        return worker.why_ended or f"exit code {worker.process.returncode}"

    async def _spawn(self) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command(theirs.fileno()),
                stdin=DEVNULL,
                pass_fds=(theirs.fileno(), self._arena.fd, *self._limits.fast.fds),
                env={**os.environ, **_ONE_THREAD, **_waits(self._limits.task_s)},
                start_new_session=True,  # Ctrl-C in a terminal ends the agent, and it its workers
            )
        worker = _Worker(process, self._heard)
        await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
        worker.limit(START_TIMEOUT_S, f"not ready {START_TIMEOUT_S:g} s after its start")
        return worker

    def _command(self, link: int) -> list[str]:
        options = {
            "link": link,
            "arena": self._arena.fd,
            "arena-bytes": self._arena.nbytes,
            "cache-memory-fd": self._limits.fast.memory_fd,
            "cache-memory-bytes": self._limits.fast.memory_bytes,
            "cache-disk-fd": self._limits.fast.disk_fd,
            "memory-bytes": self._limits.memory_bytes,
            "parent": os.getpid(),
        }
        given = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", "headrace.agent.worker", *given]

    def _heard(self, worker: _Worker, message: FromWorker) -> None:
        if isinstance(message, TooLarge):
            self._report(message)
            return
        if not isinstance(message, Ready) and worker.owes.pop(message.ticket, None) is None:
            return  # nobody waits for what it was not asked
        if worker.owes:
            self._limit(worker)
        else:
            self._rest(worker)
        if not isinstance(message, Ready):
            del self._by_ticket[message.ticket]
            self._report(message)
        self._assign()

    def _rest(self, worker: _Worker) -> None:
        worker.unlimit()
        if not worker.why_ended:
            self._idle.append(worker)
        self._ready.set()

    def _assign(self) -> None:
        while self._idle and self._waiting:
            worker, bundle = self._idle.popleft(), self._waiting.popleft()
            worker.owes = {work.ticket: work for work in bundle.works}
            self._by_ticket.update(dict.fromkeys(worker.owes, worker))
            self._limit(worker)
            worker.send(bundle)
        if self._closing:
            self._close_sources()

    def _limit(self, worker: _Worker) -> None:
        """Bound the time until the next is heard of what a worker was given."""
        work, limit_s = next(iter(worker.owes.values())), self._limits.task_s
        if isinstance(work, Prove):
            limit_s = max(limit_s, PROOF_S)
        worker.limit(limit_s, f"{name_of(work)}: stopped after {limit_s:g} s")

    def _close_sources(self) -> None:
        wanted = {work.source for bundle in self._waiting for work in bundle.works}
        for source in self._closing - wanted:
            self._closing.discard(source)
            if self._sources.pop(source, None) is not None:
                for worker in self._live:
                    worker.send(ClosePipeline(source=source))

    def _give_up_tasks(self, worker: _Worker) -> None:
        """Give up the task that a worker ended with; of several each is run again alone first."""
        owed, worker.owes = worker.owes, {}
        for ticket, work in reversed(owed.items()):
            del self._by_ticket[ticket]
            if len(owed) > 1 and not _is_refused(work):
                self._waiting.appendleft(Bundle(works=(work,)))
                continue
            ended = f"{name_of(work)}: its worker ended with {worker.process.returncode}"
            reason = worker.why_ended or ended
            self._report(Failed(ticket=ticket, code="crashed", reason=reason))
        self._assign()


def _is_refused(work: Work) -> bool:
    """Return whether a task asked for more memory and was refused it: it has none any more."""
    return isinstance(work, Task) and not work.extents


def _waits(task_s: float) -> dict[str, str]:
    """Return how patient a worker's readers of stores are: they give up before it is given up."""
    return dict.fromkeys(WAIT_VARIABLES, f"{task_s / 3:g}")


class _Worker(asyncio.Protocol):
    """One process and the link to it."""

    def __init__(self, process: Process, heard: Callable[[_Worker, FromWorker], None]) -> None:
        self.process = process
        self.owes: dict[int, Work] = {}
        """What it was given and has not told the outcome of, by ticket."""

        self.why_ended = ""
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._heard = heard
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (body := self._next_body()) is not None:
            try:
                message = decode_for_agent(body)
            except msgspec.MsgspecError as error:
                self.kill(f"a worker sent what is no message: {error}")
                return
            self._heard(self, message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - all the same
        if not self.lost.done():
            self.lost.set_result(None)

    def send(self, message: ToWorker) -> None:
        """Write a message; nothing happens when the worker is already gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def limit(self, seconds: float, reason: str) -> None:
        """End the process unless ``unlimit`` is called in time."""
        self.unlimit()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.kill, reason)

    def unlimit(self) -> None:
        """Let the process live on."""
        if self._timer is not None:
            self._timer.cancel()

    def kill(self, reason: str) -> None:
        """End the process at once."""
        self.why_ended = reason
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def end(self) -> None:
        """Leave nothing behind: no process, no socket, no timer."""
        self.unlimit()
        if self._transport is not None:
            self._transport.abort()
        self.kill(self.why_ended)
        await self.process.wait()

    def _next_body(self) -> bytearray | None:
        if len(self._buffer) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._buffer)
        if length > MAX_MESSAGE_BYTES:
            self.kill(f"a worker announced a message of {length} B")
            return None
        end = LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = self._buffer[LENGTH.size : end]
        del self._buffer[:end]
        return body
