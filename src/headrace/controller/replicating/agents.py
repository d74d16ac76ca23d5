"""Has chunks sent by agents: they are nearer to the stores, and there are many of them.

An agent that refuses, dies or is busy is left alone for a while, and the chunk is sent by another
one or by this process.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    DeadlineError,
    HeadraceError,
    ProtocolError,
    RefusedError,
)
from headrace.transfer.chunk import ChunkTask
from headrace.transfer.remote import CopyCall, copy_remotely
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint

log = logging.getLogger("headrace.controller.replicating")

AWAY_S = 10.0
"""An agent that is busy or away is not asked again before this [s]."""

REFUSED_S = 300.0
"""One that does not copy, or not between these roots, is not asked again before this [s]."""

MOST_AT_ONCE = 4
"""Chunks that one agent sends at once."""

_CONNECT_S, _ANSWER_S = 2.0, 10.0

OF_THE_AGENT = (AgentUnavailableError, AuthError, DeadlineError, ProtocolError, RefusedError)
"""Errors that say something of an agent, and nothing of the chunk."""


class AgentPool:
    """The agents that may send chunks. Thread-safe.

    Args:
        addresses: Returns name → address of those that can be counted on now.
        token: What they ask for.
        clock: Monotonic time.
    """

    def __init__(
        self,
        addresses: Callable[[], Mapping[str, str]],
        token: str,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._addresses = addresses
        self._token = token
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._running: dict[str, int] = defaultdict(int)
        self._avoided: dict[tuple[str, str], float] = {}

    @contextmanager
    def hired(self, way: str, but: set[str]) -> Iterator[str | None]:
        """Give the least busy agent that may send chunks of a way; None: there is none.

        Args:
            way: Name of the replication.
            but: Agents that were asked for this chunk already.
        """
        agent = self._take(way, but)
        try:
            yield agent
        finally:
            if agent is not None:
                with self._lock:
                    self._running[agent] -= 1

    def send(
        self,
        agent: str,
        tasks: Sequence[ChunkTask],
        bytes_per_s: float | None,
        moved: Callable[[int], None],
    ) -> None:
        """Have an agent send the tasks of a chunk, and wait until they are done.

        Args:
            agent: Its name.
            tasks: All between the same two stores.
            bytes_per_s: Most that it may move in any second [B/s]; None: no limit.
            moved: Told what it moves; what it raises ends the chunk.

        Raises:
            One of ``OF_THE_AGENT``: another one may do it.
            HeadraceError: as ``copy_chunk``.
        """
        address = self._addresses().get(agent)
        if address is None:
            raise AgentUnavailableError(f"agent {agent} left")
        endpoint = Endpoint(
            address=address,
            token=self._token,
            connect_timeout_s=_CONNECT_S,
            read_timeout_s=_ANSWER_S,
        )
        with closing(Connection(endpoint)) as connection:
            copy_remotely(connection, CopyCall(tasks=tuple(tasks), bytes_per_s=bytes_per_s), moved)

    def avoid(self, agent: str, way: str, error: HeadraceError) -> None:
        """Leave an agent alone for a while."""
        is_away = isinstance(error, AgentUnavailableError | DeadlineError)
        until = self._clock.now() + (AWAY_S if is_away else REFUSED_S)
        with self._lock:
            is_news = (agent, way) not in self._avoided
            self._avoided[agent, way] = until
        if is_news:
            log.warning("agent %s sends nothing of %s for now: %s", agent, way, error)

    def _take(self, way: str, but: set[str]) -> str | None:
        now = self._clock.now()
        known = self._addresses()
        with self._lock:
            able = [
                (self._running[name], name)
                for name in known
                if name not in but
                and self._running[name] < MOST_AT_ONCE
                and self._avoided.get((name, way), 0.0) <= now
            ]
            if not able:
                return None
            agent = min(able)[1]
            self._running[agent] += 1
            return agent
