"""Ranges of files through agents that stand beside the store; directly where none helps.

A file that agents keep ahead is asked of them. Else the same few agents are asked by everybody for
each block of a file, so that they read it once and serve it from memory to all who start at the
same time; readers spread evenly over these few.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.client.checkpoint.preloaded import Preloaded
from headrace.client.checkpoint.sharing import SharedFolder
from headrace.client.endpoints import find_token
from headrace.client.registry import FileRegistry, is_registry_file
from headrace.core.backoff import Backoff
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import RefusedError, RemoteError
from headrace.policy.spread import choose, holders
from headrace.storage.port import Storage
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.ranges import MOST_RANGE_BYTES, WantedRange, fetch_range

COPIES = 3
"""Agents that serve one block: what each of them reads is read so often from the store."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""Before an agent that did not answer is asked again [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRangeStatistics:
    """Where ranges came from."""

    agent_requests: int = 0
    agent_bytes: int = 0
    """Served by agents [bytes]."""

    direct_requests: int = 0
    """Read from the store itself although there are agents."""


class AgentRanges:
    """Reads ranges of one store, through agents where it can. Thread-safe."""

    def __init__(
        self,
        storage: Storage,
        agents: Sequence[Endpoint],
        *,
        reader: str,
        copies: int = COPIES,
        clock: Clock | None = None,
    ) -> None:
        """Prepare to read.

        Args:
            storage: The store; agents must know it by the same URL or path.
            agents: Each once, at least one.
            reader: Names who reads, such as a host and a rank: tells whom to ask first.
            copies: Agents that serve one block of a file.
            clock: Tells when an agent is asked again.
        """
        self._storage = storage
        clock = clock or SystemClock()
        self._agents = [_Agent(endpoint, clock) for endpoint in agents]
        self._preloaded = Preloaded(storage.url, agents, clock)
        self._names = tuple(endpoint.address for endpoint in agents)
        self._reader = reader
        self._copies = copies
        self._lock = threading.Lock()
        self._served = _Served()
        self._statistics = AgentRangeStatistics()

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``; errors are those of the store."""
        if 0 < length <= MOST_RANGE_BYTES:
            wanted = WantedRange(path=path, offset=offset, length=length)
            for agent in self._order(path, offset):
                data = agent.read(self._storage.url, wanted)
                if data is not None:
                    self._count(agent_bytes=length)
                    self._served.by = agent.host
                    return data
        self._count()
        self._served.by = None
        return self._storage.read(path, offset, length)

    def last_server(self) -> str | None:
        """Return the agent that served what this thread read last, as HOST:PORT; None: none."""
        return self._served.by

    def share(self, folder: SharedFolder | None) -> None:
        """Learn together with the other ranks of this host which agents keep what.

        Args:
            folder: The host's memory for a load; None: it is over.
        """
        self._preloaded.share(folder)

    def statistics(self) -> AgentRangeStatistics:
        """Return where ranges came from up to now."""
        return self._statistics

    def close(self) -> None:
        """Close the connections; the store stays open."""
        for agent in self._agents:
            agent.close()

    def _order(self, path: str, offset: int) -> list[_Agent]:
        """Return the agents to ask for a range, one after another."""
        key = f"{self._storage.url}/{path}/{offset // MOST_RANGE_BYTES}"
        serving = self._preloaded.at(path) or holders(key, self._names, self._copies)
        order = choose(key, self._reader, [self._names[at] for at in serving])
        return [self._agents[serving[at]] for at in order]

    def _count(self, agent_bytes: int = 0) -> None:
        with self._lock:
            was = self._statistics
            self._statistics = AgentRangeStatistics(
                agent_requests=was.agent_requests + bool(agent_bytes),
                agent_bytes=was.agent_bytes + agent_bytes,
                direct_requests=was.direct_requests + (not agent_bytes),
            )


class _Served(threading.local):
    """Who served what a thread read last."""

    by: str | None = None


class _Agent:
    """One agent, its idle connections, and when it is worth asking."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._backoff = Backoff(first_s=_FIRST_PAUSE_S, longest_s=_LONGEST_PAUSE_S)
        self._ask_at = 0.0

    @property
    def host(self) -> str:
        return self._endpoint.address.partition("://")[2] or self._endpoint.address

    def read(self, url: str, wanted: WantedRange) -> bytes | None:
        """Return a range; None: this agent does not help now, and is left alone if it failed."""
        if self._clock.now() < self._ask_at:
            return None
        data = bytearray(wanted.length)
        try:
            with self._connection() as connection:
                fetch_range(connection, url, wanted, memoryview(data))
        except RefusedError:
            return None  # the store itself tells why, or serves what the agent may not
        except RemoteError:
            with self._lock:
                self._ask_at = self._clock.now() + self._backoff.failed()
            return None
        with self._lock:
            self._backoff.succeeded()
        return bytes(data)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else Connection(self._endpoint)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)


def agents_of(
    agents: Sequence[str] | str, *, token: str | None, ca_file: str | None
) -> tuple[Endpoint, ...]:
    """Return the agents that a user names, as for :class:`headrace.Loader`.

    Args:
        agents: Addresses, one address, or path or URL of a TOML file that lists them.
        token: To be let in; None: what the environment says.
        ca_file: Certificates to trust, PEM.

    Raises:
        ConfigError: an address is none, or the file is not as it should be.
        HeadraceError: the file cannot be read.
    """
    token = find_token(token)
    if isinstance(agents, str) and is_registry_file(agents):
        listed = FileRegistry(agents, token=token, ca_file=ca_file).look()
        return tuple(agent.endpoint for agent in listed)
    addresses = (agents,) if isinstance(agents, str) else agents
    return tuple(Endpoint(address=one, token=token, ca_file=ca_file) for one in addresses)
