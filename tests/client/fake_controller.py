"""A controller in this process that can be told to refuse, hang, lie or die."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from headrace.wire.control import HealthAnswer, HealthReport, JobAnnounced
from headrace.wire.messages import ErrorAnswer

Said = tuple[int, bytes]
"""Status and body of an answer."""

HANGS_S = 30.0
"""So long a controller that hangs answers nothing, unless the test is over before [s]."""


class FakeController:
    """Takes reports of any job; ``answer`` is what all of them are told."""

    def __init__(self, port: int = 0) -> None:
        self.answer = HealthAnswer(score=80.0, level="healthy", mode="none")
        self.announced: list[JobAnnounced] = []
        self.reports: list[HealthReport] = []
        self.lengths: list[int] = []
        self.left: list[str] = []
        """Queries of the requests that ended a host's part."""
        self.knows_jobs = False
        """Whether reports are taken without an announcement since the last restart."""
        self.instead: Callable[[], Said | None] | None = None
        """Answers in the place of everything else; None closes without an answer."""
        self.released = threading.Event()
        self.requests = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Know no job any more, as after a restart without a journal."""
        self.knows_jobs = False

    def hang(self) -> Said | None:
        """Answer nothing until the test is over."""
        self.released.wait(HANGS_S)
        return None

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, (
                f"not in time; {len(self.announced)} announced, {len(self.reports)} reports"
            )
            time.sleep(0.005)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, method: str, path: str, body: bytes) -> Said | None:
        self.requests += 1
        if self.instead is not None:
            return self.instead()
        if method == "PUT":
            self.announced.append(msgspec.json.decode(body, type=JobAnnounced))
            self.knows_jobs = True
        elif method == "DELETE":
            self.left.append(path.partition("?")[2])
            return 204, b""
        elif not self.knows_jobs:
            return refusal(404, "unknown-job")
        else:
            self.lengths.append(len(body))
            self.reports.append(msgspec.json.decode(body, type=HealthReport))
        return 200, msgspec.json.encode(self.answer)


def refusal(status: int, code: str) -> Said:
    return status, msgspec.json.encode(ErrorAnswer(error=f"refused as {code}", code=code))


def _handler(controller: FakeController) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            said = controller.take(self.command, self.path, body)
            if said is None:
                self.close_connection = True
                return
            status, answer = said
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_PUT = do_POST = do_DELETE = _do

        def log_message(self, *_: object) -> None:
            pass

    return Handler
