"""One agent from start to end: listens, serves, watches the CPU, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec

from headrace.agent.agentlog import open_agent_log
from headrace.agent.config import AgentConfig
from headrace.agent.controlling import Controlling, HostLoad
from headrace.agent.engine import Engine
from headrace.agent.fasttier.reordering import Reordering
from headrace.agent.guarding import CpuWatch
from headrace.agent.heaps import keep_few_heaps
from headrace.agent.service import Service
from headrace.agent.statistics import AgentStatistics
from headrace.agent.storages import warn_of_unreachable
from headrace.wire.connection import Connection
from headrace.wire.daemon import run_daemon, serve
from headrace.wire.listening import (
    Listen,
    TlsFiles,
    address_of,
    close_socket,
    open_socket,
)
from headrace.wire.server import Server

log = logging.getLogger("headrace.agent")

HOUSEKEEPING_S = 10.0


class ReadyMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What an embedding program is told once the agent listens."""

    address: str
    unix_socket: str | None
    name: str
    boot: str
    pid: int
    hosts: tuple[str, ...]
    """Names and addresses of the storage node that it says it runs beside."""


class Agent:
    """An agent whose sockets are open, not yet answering.

    Raises:
        CallerError: an address is taken.
        ConfigError: a root, a TLS file or the file of certificates to trust is wrong.
    """

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        with ExitStack() as opened:
            self._servers = list(_listen(config, opened))
            log = open_agent_log(config.name)
            opened.callback(log.close)
            self.engine = Engine(config, log=log)
            self._watch = CpuWatch(self.engine, config)
            self._service = Service(
                self.engine,
                config,
                unix_socket=self.unix_socket,
                statistics=self.statistics,
                weight=lambda: self._watch.weight,
            )
            self._controlling = self._link(opened)
            self._opened = opened.pop_all()
        self._reordering = Reordering(self.engine, always=config.reorder == "always")
        self._began = self.engine.clock.now()
        self._stop = asyncio.Event()

    @property
    def address(self) -> str:
        """Where clients reach it: the ``listen`` address, its port known."""
        sock, tls = self._servers[0]
        return address_of(sock, tls=tls is not None)

    @property
    def unix_socket(self) -> str | None:
        """Path of the Unix socket, if there is one."""
        for sock, _ in self._servers:
            if sock.family == socket.AF_UNIX:
                return str(sock.getsockname())
        return None

    def ready_message(self) -> ReadyMessage:
        """Return what embedding programs are told."""
        return ReadyMessage(
            address=self.address,
            unix_socket=self.unix_socket,
            name=self.config.name,
            boot=self.engine.boot,
            pid=os.getpid(),
            hosts=self.config.hosts,
        )

    def stop(self) -> None:
        """Ask ``run`` to return."""
        self._stop.set()

    async def run(
        self, on_ready: Callable[[ReadyMessage], None], *, parent: int | None = None
    ) -> None:
        """Serve until ``stop`` or a signal; afterwards nothing of it runs any more.

        Args:
            on_ready: Called once requests are answered.
            parent: Process id to end with; None: run on without it.
        """
        app = self._service.app()
        servers = [(Server(app, tls), sock) for sock, tls in self._servers]
        background = [
            self.engine.pool.run(),
            self._watch.run(),
            self._service.run(),
            self._keep_house(),
            self._reordering.run(),
            warn_of_unreachable(self.config.storages, self.engine.threads),
        ]
        if self._controlling is not None:
            background.append(self._controlling.run())
        try:
            await serve(
                servers,
                background,
                stop=self._stop,
                on_ready=lambda: on_ready(self.ready_message()),
                parent=parent,
            )
        finally:
            self._service.close()
            self.engine.close()
            self._opened.close()

    def statistics(self) -> AgentStatistics:
        """Return counts since the start and levels now."""
        engine, queue, cpu = self.engine, self.engine.queue_statistics(), self._watch
        return AgentStatistics(
            agent=self.config.name,
            boot=engine.boot,
            uptime_s=engine.clock.now() - self._began,
            jobs=queue.jobs,
            raw_only_jobs={n: job.raw_only for n, job in engine.jobs.items() if job.raw_only},
            requests=engine.request_count,
            planned=queue.planned,
            running=queue.running,
            waited=queue.waited,
            prepared=queue.ready,
            counts=queue.counts,
            placed=engine.books.placed,
            beside=engine.books.beside,
            weight=cpu.weight,
            bytes_sent=engine.books.bytes_sent,
            cache=None if engine.fast.tier is None else engine.fast.tier.statistics(),
            ranges=self._service.ranges.statistics(),
            copies=self._service.copying.statistics(),
            memory_used_bytes=queue.memory_used_bytes,
            memory_budget_bytes=queue.memory_budget_bytes,
            workers=self.config.workers,
            workers_live=len(engine.pool.pids),
            worker_restarts=engine.pool.restarts,
            transforming=cpu.decision.transform,
            guard_reason=cpu.decision.reason,
            workers_allowed=cpu.decision.workers,
            cpu_capacity_cores=cpu.reading.capacity_cores,
            cpu_others_cores=cpu.reading.others_cores,
            cpu_own_cores=cpu.reading.own_cores,
            tiers={tier.name: tier.bytes_per_s for tier in self.config.tiers},
            use=engine.books.usage.totals(),
            quotas=engine.bandwidth.quotas(),
            controller_away=self._controlling.away if self._controlling else "",
        )

    def _link(self, opened: ExitStack) -> Controlling | None:
        if self.config.controller is None:
            return None
        caller = Connection(self.config.controller)
        caller.check()
        opened.callback(caller.close)
        return Controlling(
            self.engine, self.config, address=self.address, load=self._load, caller=caller
        )

    def _load(self) -> HostLoad:
        reading = self._watch.reading
        used_cores = reading.others_cores + reading.own_cores
        return HostLoad(
            cpu_share=min(used_cores / reading.capacity_cores, 1.0),
            transforming=self._watch.decision.transform,
        )

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self.engine.tidy()
            self.engine.prepared.give_back()


def run_agent(
    config: AgentConfig,
    on_ready: Callable[[ReadyMessage], None],
    *,
    exit_with_parent: bool = False,
) -> None:
    """Run an agent in this process until it is told to stop.

    Raises:
        HeadraceError: it cannot listen, or ``on_ready`` raised this.
    """
    keep_few_heaps()
    run_daemon(
        lambda parent: Agent(config).run(on_ready, parent=parent),
        exit_with_parent=exit_with_parent,
    )


def _listen(
    config: AgentConfig, opened: ExitStack
) -> Iterator[tuple[socket.socket, TlsFiles | None]]:
    addresses: list[tuple[Listen, TlsFiles | None]] = [(config.listen, config.tls)]
    if config.unix_path is not None:
        addresses.append((Listen(unix_path=str(config.unix_path)), None))
    if config.tls is not None:
        config.tls.check()
    for listen, tls in addresses:
        sock = open_socket(listen)
        opened.callback(close_socket, sock, listen)
        yield sock, None if listen.unix_path else tls
