"""The life of a daemon: it serves until it is told to stop, and leaves no task behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

import uvloop

from headrace.core.errors import HeadraceError
from headrace.wire.server import Server, wait_started

PARENT_PERIOD_S = 0.5

Work: TypeAlias = Coroutine[Any, Any, None]


async def serve(
    servers: Sequence[tuple[Server, socket.socket]],
    background: Sequence[Work],
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    parent: int | None,
) -> None:
    """Serve until ``stop`` is set, by a signal too; afterwards no task of it runs any more.

    Args:
        servers: Each with the socket that it listens at.
        background: What goes on beside answering; it is cancelled at the end.
        stop: Ends it.
        on_ready: Called once requests are answered.
        parent: Process id to end with; None: run on without it.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        serving = [group.create_task(server.serve(sockets=[sock])) for server, sock in servers]
        working = [group.create_task(work) for work in (*background, _follow(parent, stop))]
        await wait_started([server for server, _ in servers])
        try:
            on_ready()
            await stop.wait()
        finally:
            for server, _ in servers:
                server.end()
            await asyncio.wait(serving)
            for task in working:
                task.cancel()


def run_daemon(run: Callable[[int | None], Work], *, exit_with_parent: bool) -> None:
    """Run a daemon in this process until it ends.

    Args:
        run: Runs it; given the process id to end with, or None.
        exit_with_parent: End when the process that started this one does.

    Raises:
        HeadraceError: what went wrong at its start.
    """
    parent = os.getppid()

    async def whole() -> None:
        await run(parent if exit_with_parent else None)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(whole())
        except ExceptionGroup as group:
            for error in group.exceptions:
                if isinstance(error, HeadraceError):  # what went wrong at the start
                    raise error from None
            raise


async def _follow(parent: int | None, stop: asyncio.Event) -> None:
    """Set ``stop`` when ``parent`` ends.

    Looked at, not signalled: the kernel's parent-death signal already comes when the *thread*
    ends that started this process.
    """
    while parent is not None:
        if os.getppid() != parent:
            stop.set()
        await asyncio.sleep(PARENT_PERIOD_S)
