"""Connections to the HTTP ports of a cluster's daemons, kept open."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

LONGEST_ANSWER = 64 * 1024 * 1024
"""An answer beyond this is not read; it would describe a file of about 200,000 blocks [bytes]."""

WEB_ERRORS = (OSError, http.client.HTTPException)
"""What asking raises where nobody answers."""

_Connection = http.client.HTTPConnection


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What a daemon answered."""

    status: int
    body: bytes


class WebPorts:
    """Asks daemons by ``http://HOST:PORT`` or ``https://HOST:PORT``. Thread-safe."""

    def __init__(self, timeout_s: float) -> None:
        """Wait no longer than this for a daemon to connect, and for what it sends next [s]."""
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._kept: list[tuple[str, _Connection]] = []

    def get(self, address: str, target: str) -> WebAnswer:
        """Ask on a kept connection; one the other side has closed meanwhile is replaced.

        Raises:
            WEB_ERRORS: nobody answers.
        """
        for connection in self._connections(address):
            try:
                return self._ask(address, connection, "GET", target)
            except (ConnectionResetError, BrokenPipeError, http.client.BadStatusLine):
                continue
        raise ConnectionError("ended the connection")

    def post(self, address: str, target: str) -> WebAnswer:
        """Have something done, once: on a connection of its own, which nobody has closed yet.

        Raises:
            WEB_ERRORS: nobody answers; it may have been done.
        """
        return self._ask(address, self._new(address), "POST", target)

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for _, connection in kept:
            connection.close()

    def forget(self) -> None:
        """Leave the connections to the parent, in a forked child."""
        self._lock = threading.Lock()
        self._kept = []

    def _ask(self, address: str, connection: _Connection, method: str, target: str) -> WebAnswer:
        try:
            connection.request(method, target)
            response = connection.getresponse()
            body = response.read(LONGEST_ANSWER)
        except BaseException:
            connection.close()
            raise
        self._keep(address, connection, response)
        return WebAnswer(response.status, body)

    def _connections(self, address: str) -> Sequence[_Connection]:
        with self._lock:
            kept = [pair for pair in self._kept if pair[0] == address][:1]
            for pair in kept:
                self._kept.remove(pair)
        return [*(connection for _, connection in kept), self._new(address)]

    def _new(self, address: str) -> _Connection:
        parts = urlsplit(address)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.netloc, timeout=self._timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(parts.netloc, timeout=self._timeout_s)

    def _keep(
        self, address: str, connection: _Connection, response: http.client.HTTPResponse
    ) -> None:
        if response.will_close or not response.isclosed():
            connection.close()
            return
        with self._lock:
            self._kept.append((address, connection))
