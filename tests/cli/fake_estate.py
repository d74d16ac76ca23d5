"""A controller that only tells: the sample estate, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec
from estate_samples import agent, estate, loan

from headrace.wire.estate import Agents, Estate, Jobs, Ledger, LedgerEntry

TOKEN = "t" * 32


class FakeEstate:
    """Answers the controller's ``GET`` routes, for whoever shows the token."""

    def __init__(self) -> None:
        self.estate: Estate = estate()
        self.agents = Agents(agents=(agent("storage-0"),))
        self.entries: list[LedgerEntry] = [loan(entry=number) for number in range(9, 0, -1)]
        self.page = 1000
        self.is_broken = False
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str) -> msgspec.Struct | None:
        self.asked.append(target)
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/v1/estate":
                return self.estate
            case "/v1/jobs":
                return Jobs(jobs=self.estate.jobs)
            case "/v1/agents":
                return self.agents
            case "/v1/ledger":
                return self._ledger(query)
        return None

    def _ledger(self, query: dict[str, str]) -> Ledger:
        before = int(query.get("before", 1 << 30))
        found = [entry for entry in self.entries if entry.entry < before]
        shown = found[: min(int(query["limit"]), self.page)]
        more = shown[-1].entry if len(shown) < len(found) else None
        return Ledger(entries=tuple(shown), before=more)


@contextmanager
def telling() -> Iterator[FakeEstate]:
    fake = FakeEstate()
    try:
        yield fake
    finally:
        fake.close()


def _handler(fake: FakeEstate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._send(401, b'{"error":"the token is wrong","code":"unauthorized"}')
                return
            said = fake.answer(self.path)
            if fake.is_broken:
                self._send(503, b'{"error":"it is starting","code":"busy"}')
            elif said is None:
                self._send(200, b"<html>")
            else:
                self._send(200, msgspec.json.encode(said))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
