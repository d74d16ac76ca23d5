"""Stands between a client and an HTTP server, counts requests, and does harm on demand."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

NEVER_ENDS = 1 << 30


@dataclass
class Harm:
    """What happens to some requests."""

    only: str
    """Part of the requests' lines, such as ``GET`` or ``GET /bucket/key``."""

    times: int
    """So many requests are harmed, then they are served again."""

    status: int = 0
    """Answered with, instead of by the server; 0: the server answers."""

    body: bytes = b""
    """Of the answer of that status."""

    cut_after: int = NEVER_ENDS
    """The connection ends after so many bytes of the server's answer."""

    before: Callable[[], None] = lambda: None
    """Called before the server is asked."""


def s3_error(code: str, message: str = "") -> bytes:
    """Return the body of an answer of S3 that refuses."""
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


class Faulty:
    """A proxy on the loopback, which harms one request at a time. Used as a context."""

    def __init__(self, endpoint: str) -> None:
        self._to = urlsplit(endpoint)
        self._port = 0
        self._harming = threading.Lock()
        self.harms: list[Harm] = []
        self.requests: list[str] = []
        """Methods and paths, in the order they came."""
        self.listen()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Faulty:
        return self

    def __exit__(self, *_: object) -> None:
        self.fall_silent()

    def listen(self) -> None:
        """Take connections, on the same port as before."""
        proxy = self

        class Handler(_Handler):
            def serve(self) -> None:
                proxy.serve(self)

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def fall_silent(self) -> None:
        """Refuse connections, as a host does whose server was killed."""
        self._server.shutdown()
        self._server.server_close()
        for connection in self._server.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def serve(self, request: _Handler) -> None:
        line = f"{request.command} {request.path}"
        self.requests.append(line)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        harm = self._harm(line)
        if harm is None:
            answer, data = self._ask(request, body)
            request.answer(answer.status, dict(answer.getheaders()), data)
            return
        with self._harming:
            self._do_harm(harm, request, body)

    def _do_harm(self, harm: Harm, request: _Handler, body: bytes) -> None:
        if harm.status:
            request.answer(harm.status, {}, harm.body)
            return
        harm.before()
        answer, data = self._ask(request, body)
        request.answer(answer.status, dict(answer.getheaders()), data[: harm.cut_after])
        request.close_connection = harm.cut_after < len(data)

    def _harm(self, line: str) -> Harm | None:
        for harm in self.harms:
            if harm.only in line and harm.times > 0:
                harm.times -= 1
                return harm
        return None

    def _ask(self, request: _Handler, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """Ask the server in the words of the client: it signed the name of the host as well."""
        connection = http.client.HTTPConnection(self._to.netloc, timeout=30)
        try:
            connection.putrequest(
                request.command, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.connections: list[socket.socket] = []
        super().__init__(address, handler)

    def process_request(self, request: socket.socket, address: tuple[str, int]) -> None:
        self.connections.append(request)
        super().process_request(request, address)

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def serve(self) -> None:
        raise NotImplementedError

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = lambda self: self.serve()

    def answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
