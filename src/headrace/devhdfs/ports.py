"""Ports for daemons: chosen free, and kept from other clusters until they are in use."""

from __future__ import annotations

import socket
from types import TracebackType


class PortReservation:
    """Holds ports of one address that nobody else gets, while a daemon can still bind them.

    Each port is bound but not listened on. The kernel gives it to nobody who asks for any
    port, and refuses it to those who name it, except with ``SO_REUSEADDR``, which Java's
    servers set. Keeping it while the daemon is down also lets the daemon come back.
    """

    def __init__(self, ip: str = "127.0.0.1") -> None:
        self._ip = ip
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Return one more port."""
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.append(held)
        held.bind((self._ip, 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port: int = held.getsockname()[1]
        return port

    def release(self) -> None:
        """Let go of all ports."""
        while self._held:
            self._held.pop().close()

    def __enter__(self) -> PortReservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
