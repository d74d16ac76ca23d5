"""One controller from start to end: listens, serves, ticks, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import msgspec

from headrace.controller.call import Parts
from headrace.controller.config import ControllerConfig
from headrace.controller.controllerlog import RecordedCarrier, open_controller_log
from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.hotspots.reading import read_hot_files
from headrace.controller.hotspots.stores import open_carrier
from headrace.controller.journal import Journal
from headrace.controller.replicating.agents import AgentPool
from headrace.controller.replicating.replicating import Replicating
from headrace.controller.service import Service
from headrace.controller.steward import Steward
from headrace.controller.waking import WakingClock
from headrace.core.clock import SystemClock
from headrace.wire.daemon import run_daemon, serve
from headrace.wire.listening import address_of, close_socket, open_socket
from headrace.wire.server import Server

_MOST_TICKS = 2.0
"""More time between two looks at the clock means that this process did not run."""

_FIRST_LOOK = 20_000
"""Objects more than were freed, before the newest are looked at (Python: 700)."""

_OLDER_LOOKS = 100
"""Looks at newer objects for each look at older ones (Python: 10)."""


class ReadyMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What an embedding program is told once the controller listens."""

    address: str
    boot: str
    pid: int
    journal: str | None


class Controller:
    """A controller whose socket is open, not yet answering.

    Raises:
        CallerError: the address is taken, or the journal is another controller's.
        ConfigError: a TLS file or the journal cannot be used.
    """

    def __init__(self, config: ControllerConfig) -> None:
        self.config = config
        self._agents: Mapping[str, str] = {}
        """Name → address, as of the last tick: looked at from other threads."""

        with ExitStack() as opened:
            if config.tls is not None:
                config.tls.check()
            self._socket = open_socket(config.listen)
            opened.callback(close_socket, self._socket, config.listen)
            journal = Journal(config.journal)
            opened.callback(journal.close)
            log = open_controller_log()
            opened.callback(log.close)
            clock = WakingClock(SystemClock(), most_s=_MOST_TICKS * config.tick_s)
            hotspots = HotspotDesk(
                journal,
                read=read_hot_files,
                opened=lambda store: RecordedCarrier(
                    store, open_carrier(store, lambda: self._agents, config.token), log
                ),
                limits=config.hotspots,
            )
            opened.callback(hotspots.close)
            pool = AgentPool(lambda: self._agents, config.token)
            replicating = Replicating(config.replicating, journal, agents=pool, log=log)
            opened.callback(replicating.close)
            steward = Steward(config.limits, journal, clock=clock)
            self.parts = Parts(steward=steward, hotspots=hotspots, replicating=replicating)
            self._opened = opened.pop_all()
        self._stop = asyncio.Event()

    @property
    def address(self) -> str:
        """Where clients reach it, its port known."""
        return address_of(self._socket, tls=self.config.tls is not None)

    def ready_message(self) -> ReadyMessage:
        """Return what embedding programs are told."""
        journal = self.config.journal
        return ReadyMessage(
            address=self.address,
            boot=self.parts.steward.boot,
            pid=os.getpid(),
            journal=str(journal) if journal else None,
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
        config = self.config
        service = Service(self.parts, token=config.token, open_metrics=config.open_metrics)
        server = Server(service.app(), config.tls)
        try:
            await serve(
                [(server, self._socket)],
                [self._keep_time()],
                stop=self._stop,
                on_ready=lambda: on_ready(self.ready_message()),
                parent=parent,
            )
        finally:
            self._opened.close()

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(self.config.tick_s)
            self.parts.steward.tick()
            self._agents = self.parts.steward.agents.addresses()
            self.parts.hotspots.tick()


def run_controller(
    config: ControllerConfig,
    on_ready: Callable[[ReadyMessage], None],
    *,
    exit_with_parent: bool = False,
) -> None:
    """Run a controller in this process until it is told to stop.

    Raises:
        HeadraceError: it cannot listen, or ``on_ready`` raised this.
    """
    _spare_collections()
    run_daemon(
        lambda parent: Controller(config).run(on_ready, parent=parent),
        exit_with_parent=exit_with_parent,
    )


def _spare_collections() -> None:
    """Let Python look for cyclic garbage rarely, and never at what was imported.

    What reports leave is freed at once; but a look at everything that is known of 2,500 hosts
    took 0.1 to 0.25 s, in which nobody was answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_FIRST_LOOK, _OLDER_LOOKS, _OLDER_LOOKS)
