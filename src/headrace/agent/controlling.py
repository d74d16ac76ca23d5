"""The agent's link to the controller: tells what jobs use here, and holds them to what it orders.

While the controller is away everything stays as it was ordered last; it is announced to again
when it is back, with what is in force, so that both agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.threads import DaemonThreads
from headrace.agent.tiers import Tier
from headrace.agent.usage import used_since
from headrace.core.backoff import Backoff
from headrace.core.errors import HeadraceError, ProtocolError, RefusedError
from headrace.wire.control import (
    AgentAnnounced,
    AgentOrders,
    AgentReport,
    JobUse,
    TierOffer,
)
from headrace.wire.endpoint import Endpoint

log = logging.getLogger("headrace.agent.controlling")

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 5.0
"""Longest pauses before a controller that is away is tried again [s]."""

SHORTEST_PERIOD_S = 0.05
LONGEST_PERIOD_S = 60.0
"""An order to report less often than this is none [s]."""

LEAVE_S = 1.0
"""Longest time to tell the controller that the agent ends [s]."""

CONNECT_S = 2.0
ANSWER_S = 5.0
"""A controller that takes longer to connect or to answer is away [s]."""

ANNOUNCE_AGAIN = frozenset({"unknown-agent", "stale-report"})
"""Refusals of a controller that started again, or that heard of another start of this agent."""

A = TypeVar("A")


class Caller(Protocol):
    """Sends one message and returns the decoded answer; blocks, for one thread at a time."""

    def call(self, method: str, path: str, answer: type[A], message: Any = None) -> A:
        """Return the answer.

        Raises:
            HeadraceError: there is none, or it is not what was asked for.
            OSError: this host has no sockets or the like to ask with.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class HostLoad:
    """What the host has to do."""

    cpu_share: float
    """Of its CPU, everybody's together, 0 to 1."""

    transforming: bool


class Controlling:
    """Reports to one controller and carries its orders out. Event loop's thread only.

    Args:
        engine: The agent's.
        config: The agent's.
        address: Where clients reach the agent.
        load: Tells what the host has to do.
        caller: Reaches the controller.
    """

    def __init__(
        self,
        engine: Engine,
        config: AgentConfig,
        *,
        address: str,
        load: Callable[[], HostLoad],
        caller: Caller,
    ) -> None:
        self.away = "not reached yet"
        """Why the controller's word is not heard; empty while it is."""

        self._engine = engine
        self._config = config
        self._address = address
        self._load = load
        self._caller = caller
        self._path = f"/v1/agents/{quote(config.name, safe='')}"
        self._thread = DaemonThreads(1, "headrace-controller")
        self._announced = False
        self._sequence = 0
        self._told: dict[str, JobUse] = {}
        self._told_at = engine.clock.now()
        self._backoff = Backoff(first_s=FIRST_RETRY_S, longest_s=LONGEST_RETRY_S)

    async def run(self) -> None:
        """Report, and obey, until cancelled; then say that the agent ends."""
        try:
            while True:
                await asyncio.sleep(await self.exchange())
        finally:
            await self._leave()
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def exchange(self) -> float:
        """Report once and carry out the answer; return when to do it again [s]."""
        try:
            orders = await self._report()
            _check(orders)
        except (HeadraceError, OSError) as error:
            return self._failed(error)
        self._obey(orders)
        return orders.every_s

    async def _leave(self) -> None:
        if not self._announced:
            return
        with contextlib.suppress(HeadraceError, OSError):
            async with asyncio.timeout(LEAVE_S):
                await self._call("DELETE", self._path, object, None)

    async def _report(self) -> AgentOrders:
        if not self._announced:
            return await self._announce()
        now, totals = self._engine.clock.now(), self._engine.books.usage.totals()
        report = self._report_of(totals, now)
        self._sequence += 1
        try:
            orders = await self._call("POST", f"{self._path}/report", AgentOrders, report)
        except RefusedError as error:
            if error.code not in ANNOUNCE_AGAIN:
                raise
            log.info("%s; announcing this agent again", error)
            self._announced = False
            return await self._announce()
        self._told, self._told_at = totals, now
        return orders

    async def _announce(self) -> AgentOrders:
        message = AgentAnnounced(
            boot=self._engine.boot,
            address=self._address,
            hosts=self._config.hosts,
            tiers=offers(self._config.tiers),
            enforced=self._engine.bandwidth.quotas(),
        )
        orders = await self._call("PUT", self._path, AgentOrders, message)
        self._announced = True
        return orders

    def _report_of(self, totals: dict[str, JobUse], now: float) -> AgentReport:
        quotas, waiting = self._engine.bandwidth.quotas(), self._engine.waiting()
        used = used_since(self._told, totals)
        load = self._load()
        return AgentReport(
            boot=self._engine.boot,
            sequence=self._sequence,
            interval_s=max(now - self._told_at, 0.0),
            jobs={
                name: msgspec.structs.replace(
                    used.get(name, JobUse()),
                    waiting=waiting.get(name, 0),
                    enforced=quotas.get(name, {}),
                )
                for name in sorted({*used, *waiting, *quotas})
            },
            cpu_share=load.cpu_share,
            workers=self._config.workers,
            transforming=load.transforming,
            cache_hit_share=self._engine.fast.hit_share(),
        )

    def _obey(self, orders: AgentOrders) -> None:
        if self._backoff.failures or self.away:
            log.info("the controller is heard: jobs are held to its quotas")
        self._backoff.succeeded()
        self.away = ""
        if orders.quotas != self._engine.bandwidth.quotas():
            self._engine.bandwidth.set_quotas(orders.quotas)
        if orders.reorder is not None:
            self._engine.set_reordering(frozenset(orders.reorder))

    def _failed(self, error: HeadraceError | OSError) -> float:
        """Keep everything as it is, say so once, and return when to try again [s]."""
        self._announced = False
        if not self._backoff.failures:
            log.warning("%s; quotas stay as they are until it is back", error)
        self.away = str(error)
        return self._backoff.failed()

    async def _call(self, method: str, path: str, answer: type[A], message: Any) -> A:
        """Call when the caller is done with what it is at, if anything."""
        return await self._thread.run(lambda: self._caller.call(method, path, answer, message))


def controller_at(address: str, token: str, ca_file: str | None = None) -> Endpoint:
    """Return how a controller is reached, with the patience that suits one."""
    return Endpoint(
        address=address,
        token=token,
        ca_file=ca_file,
        connect_timeout_s=CONNECT_S,
        read_timeout_s=ANSWER_S,
        service="controller",
    )


def offers(tiers: Sequence[Tier]) -> tuple[TierOffer, ...]:
    """Return tiers as the controller is told of them."""
    return tuple(
        TierOffer(tier=tier.name, media=tier.media, bytes_per_s=tier.bytes_per_s) for tier in tiers
    )


def _check(orders: AgentOrders) -> None:
    """Refuse orders that make no sense before any is carried out.

    Raises:
        ProtocolError: one does not.
    """
    for job, tiers in orders.quotas.items():
        for tier, rate in tiers.items():
            if not 0 <= rate < math.inf:
                raise ProtocolError(
                    f"the controller orders {rate:g} B/s on {tier} for job {job}, which is no "
                    "rate; is it of the same version?"
                )
    if not SHORTEST_PERIOD_S <= orders.every_s <= LONGEST_PERIOD_S:
        raise ProtocolError(
            f"the controller orders a report every {orders.every_s:g} s; "
            f"{SHORTEST_PERIOD_S:g} to {LONGEST_PERIOD_S:g} s are possible"
        )
