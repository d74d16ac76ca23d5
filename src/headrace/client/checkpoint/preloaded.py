"""Which agents keep which files ahead: looked up in the background, now and then.

The controller chooses them when a load is announced; readers need not know how. Of the ranks of a
host that share a load one asks, and the others take its answer: agents meet a call for each host.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from headrace.client.checkpoint.sharing import SharedFolder
from headrace.core.clock import Clock
from headrace.core.digest import name_digest
from headrace.core.errors import HeadraceError
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.ranges import preloaded_files

FIRST_S = 0.5
"""Longest time that the first read waits to know [s]."""

REFRESH_S = 30.0
"""What is known is looked up again after this time [s]."""

_ANSWER_S = 2.0
_THREADS = 8


class Preloaded:
    """What the agents beside one store keep of it. Thread-safe.

    Args:
        url: Of the store.
        agents: To be asked.
        clock: Tells when to look again.
    """

    def __init__(self, url: str, agents: Sequence[Endpoint], clock: Clock) -> None:
        self._url = url
        self._agents = [
            replace(
                agent,
                connect_timeout_s=min(agent.connect_timeout_s, _ANSWER_S),
                read_timeout_s=min(agent.read_timeout_s, _ANSWER_S),
            )
            for agent in agents
        ]
        self._clock = clock
        self._lock = threading.Lock()
        self._look_at = clock.now()
        self._kept: list[frozenset[str]] = [frozenset()] * len(agents)
        self._unasked: list[int] = []
        self._is_looking = False
        self._known = threading.Event()
        self._folder: SharedFolder | None = None
        addresses = " ".join(agent.address for agent in agents)
        self._name = f"preloaded{name_digest(f'{url} {addresses}'.encode())}"

    def share(self, folder: SharedFolder | None) -> None:
        """Ask only what no other rank of this host asked; None: ask everything from now on.

        Args:
            folder: The host's memory for a load.
        """
        self._folder = folder

    def at(self, path: str) -> tuple[int, ...]:
        """Return the positions of the agents that keep something of a file, or are about to."""
        self._look()
        self._known.wait(FIRST_S)
        return tuple(at for at, kept in enumerate(self._kept) if path in kept)

    def _look(self) -> None:
        with self._lock:
            now = self._clock.now()
            if now < self._look_at or self._is_looking:
                return
            self._look_at = now + REFRESH_S
            self._is_looking = True
        turn = int(now // REFRESH_S)  # the same in all processes of a host
        threading.Thread(target=self._learn, args=(turn,), name="preloaded", daemon=True).start()

    def _learn(self, turn: int) -> None:
        folder = self._folder
        try:
            if folder is None:
                self._ask_all()
            else:
                answers = folder.make_once(f"{self._name}{turn}", self._ask_all)
                self._kept = msgspec.json.decode(answers, type=list[frozenset[str]])
        finally:
            self._is_looking = False
            self._known.set()

    def _ask_all(self) -> bytes:
        """Ask all agents and return what each keeps, as JSON."""
        self._unasked = list(range(len(self._agents)))
        threads = [
            threading.Thread(target=self._ask, name="preloaded-ask", daemon=True)
            for _ in range(min(_THREADS, len(self._agents)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return msgspec.json.encode(self._kept)

    def _ask(self) -> None:
        while (at := self._next()) is not None:
            self._kept[at] = self._kept_by(self._agents[at])

    def _next(self) -> int | None:
        with self._lock:
            return self._unasked.pop() if self._unasked else None

    def _kept_by(self, agent: Endpoint) -> frozenset[str]:
        connection = Connection(agent)
        try:
            return frozenset(file.path for file in preloaded_files(connection, self._url))
        except HeadraceError:  # it is away, or does not serve this store
            return frozenset()
        finally:
            connection.close()
