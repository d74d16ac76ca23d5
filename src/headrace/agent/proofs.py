"""Golden vectors that workers make, so that no op ever runs in the agent itself."""

from __future__ import annotations

import asyncio

from headrace.agent.tasks import Failed, Outcome, Prove, Proven, TooLarge
from headrace.agent.workers import WorkerPool

START_S = 60.0
"""Longest wait for a worker that starts [s]."""


class Proofs:
    """Those that are waited for. Used from the event loop's thread only.

    Args:
        pool: Makes them.
        task_s: Longest time that a worker takes for one sample [s].
    """

    def __init__(self, pool: WorkerPool, task_s: float) -> None:
        self._pool = pool
        self._patience_s = START_S + 2 * task_s
        self._waited: dict[int, asyncio.Future[Proven | Failed]] = {}

    async def make(self, ticket: int, source: int) -> Proven | Failed:
        """Return a source's golden vectors, or why there are none; before any sample is made."""
        self._waited[ticket] = asyncio.get_running_loop().create_future()
        self._pool.submit_first(Prove(ticket=ticket, source=source))
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._waited[ticket]
        except TimeoutError:
            return Failed(ticket=ticket, code="crashed", reason="no worker was free to prove it")
        finally:
            del self._waited[ticket]

    def take(self, message: Outcome | TooLarge) -> None:
        """Take in what a worker says, if it is about one that is waited for."""
        waited = self._waited.get(message.ticket)
        if waited is not None and isinstance(message, Proven | Failed) and not waited.done():
            waited.set_result(message)
