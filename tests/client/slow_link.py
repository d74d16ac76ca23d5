"""A link of a rate that can be changed, between a client and one agent."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

PIECE_BYTES = 8 << 10

CATCH_UP_S = 0.004
"""A link that was late, because this host was busy, catches up with so much [s]."""


class SlowLink:
    """Passes bytes on; those to the client take their time, over all connections together."""

    def __init__(self, address: str, bytes_per_s: float) -> None:
        parts = urlsplit(address)
        self._target = (parts.hostname or "", parts.port or 0)
        self.bytes_per_s = bytes_per_s
        self._turn = threading.Lock()
        self._free_at = 0.0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            for source, sink, slow in ((near, far, False), (far, near, True)):
                thread = threading.Thread(target=self._pump, args=(source, sink, slow), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE_BYTES):
                if slow:
                    self._pass(len(data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _pass(self, nbytes: int) -> None:
        with self._turn:
            begin = max(self._free_at, time.monotonic() - CATCH_UP_S)
            self._free_at = begin + nbytes / self.bytes_per_s
            until = self._free_at
        time.sleep(max(until - time.monotonic(), 0.0))


@contextlib.contextmanager
def slow_link(address: str, bytes_per_s: float) -> Iterator[SlowLink]:
    link = SlowLink(address, bytes_per_s)
    try:
        yield link
    finally:
        link.close()
