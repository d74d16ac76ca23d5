"""Which agents keep which files ahead: looked up in the background, now and then.

The controller chooses them when a load is announced; readers need not know how.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from headrace.core.clock import Clock
from headrace.core.errors import HeadraceError
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.ranges import preloaded_files

FIRST_S = 0.5
"""Longest time that the first read waits to know [s]."""

REFRESH_S = 10.0
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
        self._asking = 0
        self._known = threading.Event()

    def at(self, path: str) -> tuple[int, ...]:
        """Return the positions of the agents that keep something of a file, or are about to."""
        self._look()
        self._known.wait(FIRST_S)
        return tuple(at for at, kept in enumerate(self._kept) if path in kept)

    def _look(self) -> None:
        with self._lock:
            if self._clock.now() < self._look_at or self._asking:
                return
            self._look_at = self._clock.now() + REFRESH_S
            self._unasked = list(range(len(self._agents)))
            self._asking = min(_THREADS, len(self._agents))
            for _ in range(self._asking):
                threading.Thread(target=self._ask, name="preloaded", daemon=True).start()

    def _ask(self) -> None:
        while (at := self._next()) is not None:
            self._kept[at] = self._kept_by(self._agents[at])

    def _next(self) -> int | None:
        with self._lock:
            if self._unasked:
                return self._unasked.pop()
            self._asking -= 1
            if not self._asking:
                self._known.set()
            return None

    def _kept_by(self, agent: Endpoint) -> frozenset[str]:
        connection = Connection(agent)
        try:
            return frozenset(file.path for file in preloaded_files(connection, self._url))
        except HeadraceError:  # it is away, or does not serve this store
            return frozenset()
        finally:
            connection.close()
