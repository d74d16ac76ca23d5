"""One HTTP server of a daemon: uvicorn, without its own signals and its ticking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.wire.listening import TlsFiles, allow_connections

GRACE_S = 1
"""Answers in flight may end within this time when a daemon is told to stop [s]."""

_KEEP_ALIVE_S = 300
_START_S = 10


class _Protocol(HttpToolsProtocol):
    """uvicorn's, that does not remember connections that were reset.

    Its timer of idle connections goes on for those, with the connection and its last request: each
    client that was killed left 10 kB for as long as idle connections are kept.
    """

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - all the same
        super().connection_lost(None)


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers: two servers share one process here."""

    def __init__(self, app: ASGIApp, tls: TlsFiles | None) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            limit_concurrency=allow_connections(),
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=tls.cert if tls else None,
            ssl_keyfile=tls.key if tls else None,
        )
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let ``serve`` return after a grace period for what is in flight."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # to be cut off is no error
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Wait to be ended; the base class looks ten times a second, also when nobody is there."""
        await self.on_tick(0)
        await self._ending.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield


async def wait_started(servers: Sequence[Server]) -> None:
    """Wait until all answer.

    Raises:
        TimeoutError: one did not within ten seconds.
    """
    async with asyncio.timeout(_START_S):
        while not all(server.started for server in servers):
            await asyncio.sleep(0.01)
