"""What jobs may read and send here: the queue decides, whoever reads besides tasks waits here."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

from headrace.core.clock import Clock
from headrace.core.media import TierName
from headrace.policy.lookahead import Lookahead
from headrace.policy.lookahead_events import Event, QuotasChanged, ReadAsked, ReadWithdrawn


class Bandwidth:
    """The quotas in force, and the reads that wait for one. Event loop's thread only.

    Args:
        queue: Holds the quotas, and decides.
        handle: Gives the queue an event and carries out its actions.
        clock: Measures how long reads wait.
        links: Tiers that what is sent is counted against.
    """

    def __init__(
        self,
        queue: Lookahead,
        handle: Callable[[Event], None],
        clock: Clock,
        links: Sequence[TierName],
    ) -> None:
        self._queue = queue
        self._handle = handle
        self._clock = clock
        self._links = tuple(links)
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._numbers = itertools.count(1)

    def quotas(self) -> dict[str, dict[TierName, float]]:
        """Return the quotas in force: job → tier → bandwidth [B/s]."""
        return self._queue.quotas()

    def set_quotas(self, quotas: Mapping[str, Mapping[TierName, float]]) -> None:
        """Hold each job to these quotas from now on, and those that are not named to none [B/s]."""
        self._handle(QuotasChanged(quotas=quotas))

    def limits_egress(self, job: str) -> bool:
        """Return whether a job has a quota for what is sent."""
        return any(self._queue.limits(job, link) for link in self._links)

    def holds_back(self, job: str) -> bool:
        """Return whether a job's quota is all that keeps it from going on with a sample."""
        return self._queue.holds_back(job)

    async def wait(self, job: str, tier: TierName, nbytes: int, *, step: int) -> float:
        """Wait until a job's quota has ``nbytes`` for it; return how long that took [s].

        Reads for earlier steps go first; samples that are only foreseen come after all.
        """
        if not self._queue.limits(job, tier):
            return 0.0
        begin, number = self._clock.now(), next(self._numbers)
        turn = self._turns[number] = asyncio.get_running_loop().create_future()
        try:
            self._handle(ReadAsked(read=number, job=job, tier=tier, nbytes=nbytes, step=step))
            await turn
        finally:
            del self._turns[number]
            if not turn.done() or turn.cancelled():
                self._handle(ReadWithdrawn(read=number))
        return self._clock.now() - begin

    async def wait_to_send(self, job: str, nbytes: int, *, step: int) -> dict[TierName, float]:
        """Wait until ``nbytes`` may be sent; return how long each link held them back [s]."""
        return {link: await self.wait(job, link, nbytes, step=step) for link in self._links}

    def let_go(self, read: int) -> None:
        """Let a read be made that the queue has answered."""
        turn = self._turns.get(read)
        if turn is not None and not turn.done():
            turn.set_result(None)
