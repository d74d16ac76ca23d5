"""Where a loader learns which agents there are: a list, or a file that may change meanwhile.

The form of the file::

    [[agent]]
    address = "http://storage-1:7411"

    [[agent]]
    address = "http://storage-2:7411"
    host = "10.0.0.2"   # or a list: the storage nodes beside it, besides what it says itself
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.core.errors import ConfigError, HeadraceError
from headrace.core.keys import key_hint
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.endpoint import Endpoint

logger = logging.getLogger("headrace.client")

_KEYS = ("address", "host")


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """One agent that a job may use."""

    endpoint: Endpoint
    hosts: tuple[str, ...] = ()
    """Storage nodes beside it, besides those that it names itself."""


class Registry(Protocol):
    """Who knows the agents of a job."""

    @property
    def may_change(self) -> bool:
        """Whether it is worth looking again."""
        ...

    def look(self) -> tuple[ListedAgent, ...]:
        """Return the agents that there are now; may block for a few seconds.

        Raises:
            HeadraceError: they could never be told; once they were, the latest are kept.
        """
        ...


class FixedRegistry:
    """A list that stays as it is."""

    may_change = False

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._agents = tuple(ListedAgent(endpoint) for endpoint in endpoints)

    def look(self) -> tuple[ListedAgent, ...]:
        """Return the agents."""
        return self._agents


class FileRegistry:
    """A TOML file on any storage, read again when it changed. For one thread."""

    may_change = True

    def __init__(self, url: str, *, token: str | None, ca_file: str | None) -> None:
        self._url = url
        self._token = token
        self._ca_file = ca_file
        self._storage: Storage | None = None
        self._version = ""
        self._known: tuple[ListedAgent, ...] | None = None
        self._complaint = ""

    def look(self) -> tuple[ListedAgent, ...]:
        """Return the agents that the file names; the latest ones while it cannot be read.

        Raises:
            HeadraceError: it could not be read the first time.
        """
        try:
            self._read_if_changed()
        except HeadraceError as error:
            if self._known is None:
                raise
            if str(error) != self._complaint:
                logger.warning("%s; going on with the agents known so far", error)
            self._complaint = str(error)
        assert self._known is not None
        return self._known

    def _read_if_changed(self) -> None:
        folder, _, name = self._url.rpartition("/")
        if self._storage is None:
            root = folder or ("/" if self._url.startswith("/") else ".")
            self._storage = open_storage(root)
        version = self._storage.stat(name).version
        if version != self._version:
            text = self._storage.read(name)
            self._known = tuple(self._agents(text))
            self._version, self._complaint = version, ""

    def _agents(self, text: bytes) -> list[ListedAgent]:
        try:
            document = tomllib.loads(text.decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{self._url} is not TOML: {error}") from error
        _require_keys(self._url, document, ("agent",))
        tables = document.get("agent", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ConfigError(f"{self._url}: write one [[agent]] for each agent")
        agents = [self._agent(table) for table in tables]
        addresses = [agent.endpoint.address for agent in agents]
        twice = {address for address in addresses if addresses.count(address) > 1}
        if twice:
            raise ConfigError(f"{self._url} names {', '.join(sorted(twice))} twice; give it once")
        return agents

    def _agent(self, table: Mapping[str, Any]) -> ListedAgent:
        _require_keys(self._url, table, _KEYS)
        address, hosts = table.get("address"), table.get("host", [])
        hosts = [hosts] if isinstance(hosts, str) else hosts
        if not isinstance(address, str) or not isinstance(hosts, list):
            raise ConfigError(
                f'{self._url}: an [[agent]] needs address = "http://HOST:PORT", and may have '
                'host = "…" or a list of them'
            )
        if not all(isinstance(host, str) and host for host in hosts):
            raise ConfigError(f"{self._url}: host={hosts!r} of {address} must be names of hosts")
        endpoint = Endpoint(address=address, token=self._token, ca_file=self._ca_file)
        return ListedAgent(endpoint, tuple(hosts))


def is_registry_file(agents: object) -> bool:
    """Return whether ``agents=…`` names a file that lists agents."""
    return isinstance(agents, str) and agents.endswith(".toml")


def _require_keys(url: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{url}: unknown key {key!r}; {key_hint(key, known)}")
