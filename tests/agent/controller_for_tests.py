"""A controller that orders what the test wants, and can be away in every way."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal

import msgspec

from headrace.wire.control import AgentAnnounced, AgentOrders, AgentReport
from headrace.wire.messages import ErrorAnswer

Mood = Literal["well", "garbage", "failing", "frozen", "forgetful", "strange", "refusing"]


class FakeController:
    """Answers at ``address`` with ``orders``, according to its ``mood``."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.orders = AgentOrders(every_s=0.05)
        self.mood: Mood = "well"
        self.announced: list[AgentAnnounced] = []
        self.reports: list[AgentReport] = []
        self.left = 0
        self._thaw = threading.Event()
        self._server = self._serve(0)
        self._port = self._server.server_address[1]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def order(self, **quotas: float) -> None:
        """Order quotas on the tier ``hdd`` [B/s]; a job's name has a digest's form."""
        rates = {job: {"hdd": rate} for job, rate in quotas.items()}
        self.orders = AgentOrders(quotas=rates, every_s=0.05)

    def stop(self) -> None:
        self._thaw.set()
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()

    def start_again(self) -> None:
        self._thaw = threading.Event()
        self._server = self._serve(self._port)

    def __enter__(self) -> FakeController:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()

    def _serve(self, port: int) -> _Server:
        server = _Server(("127.0.0.1", port), _handler_of(self))
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def answer(self, method: str, path: str, body: bytes, shown: str) -> tuple[int, bytes]:
        """Return the status and body of an answer."""
        if shown != f"Bearer {self.token}":
            return 401, msgspec.json.encode(ErrorAnswer(error="it is wrong", code="unauthorized"))
        match self.mood:
            case "garbage":
                return 200, b"<html>proxy</html>"
            case "failing":
                return 500, b"oops"
            case "frozen":
                self._thaw.wait(30)
                return 500, b""
            case "strange":
                strange = AgentOrders(quotas={"job": {"hdd": -1.0}})
                return 200, msgspec.json.encode(strange)
            case "refusing":
                said = ErrorAnswer(error="it makes no sense", code="bad-report")
                return 400, msgspec.json.encode(said)
        if method == "DELETE":
            self.left += 1
            return 204, b""
        if path.endswith("/report"):
            if self.mood == "forgetful" and not self.announced:
                said = ErrorAnswer(error="announce it first", code="unknown-agent")
                return 404, msgspec.json.encode(said)
            self.reports.append(msgspec.json.decode(body, type=AgentReport))
        else:
            self.announced.append(msgspec.json.decode(body, type=AgentAnnounced))
        return 200, msgspec.json.encode(self.orders)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self.__dict__.setdefault("open", []).append(connection)
        return connection, address

    def hang_up(self) -> None:
        for connection in self.__dict__.pop("open", []):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _handler_of(controller: FakeController) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            status, body = controller.answer(
                self.command,
                self.path,
                self.rfile.read(length),
                self.headers.get("Authorization", ""),
            )
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = do_DELETE = _do

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
