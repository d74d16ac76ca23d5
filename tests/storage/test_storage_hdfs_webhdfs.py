"""NameNodes' HTTP ports that answer what a real cluster of the tests does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.core.errors import NotFoundError, ProtocolError, StorageError
from headrace.storage.hdfs.address import HdfsAddress
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.webhdfs import WebHdfs
from headrace.storage.port import BlockPlace, Replica

BLOCKS = {
    "BlockLocations": {
        "BlockLocation": [
            {"offset": 0, "length": 7, "hosts": ["a", "b"], "names": ["1.1.1.1:9", "2.2.2.2:9"]}
        ]
    }
}


def remote(exception: str) -> dict[str, dict[str, str]]:
    return {"RemoteException": {"exception": exception, "message": f"{exception}\n\tat x"}}


class FakeNameNode:
    """Answers every request alike, and notes them."""

    def __init__(self, status: int, answer: object, *, keep_alive: bool = True) -> None:
        asked = self.asked = []
        body = json.dumps(answer).encode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

            def do_GET(self) -> None:
                asked.append((self.client_address, self.path))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def running() -> Iterator[list[FakeNameNode]]:
    servers: list[FakeNameNode] = []
    yield servers
    for server in servers:
        server.close()


def client(running: list[FakeNameNode], *servers: FakeNameNode) -> WebHdfs:
    running.extend(servers)
    web = tuple(server.url for server in servers)
    address = HdfsAddress(authority="x", root="", namenodes=("x:1",), web=web)
    return WebHdfs(address, HdfsConfig(user="ann", namenode_timeout_s=5))


def test_blocks_come_with_the_nodes_that_hold_them(running: list[FakeNameNode]) -> None:
    server = FakeNameNode(200, BLOCKS)
    web = client(running, server)
    replicas = (Replica("a", "1.1.1.1:9"), Replica("b", "2.2.2.2:9"))
    assert web.locate("/a b/x?y") == [BlockPlace(0, 7, replicas)]
    assert "/webhdfs/v1/a%20b/x%3Fy?" in server.asked[0][1]
    assert "user.name=ann" in server.asked[0][1]
    web.close()


def test_a_connection_is_used_again(running: list[FakeNameNode]) -> None:
    server = FakeNameNode(200, BLOCKS)
    web = client(running, server)
    for _ in range(5):
        web.locate("/x")
    assert len({peer for peer, _ in server.asked}) == 1
    web.close()


def test_a_server_that_ends_connections_is_asked_on_new_ones(running: list[FakeNameNode]) -> None:
    web = client(running, FakeNameNode(200, BLOCKS, keep_alive=False))
    assert [len(web.locate("/x")) for _ in range(3)] == [1, 1, 1]


def test_a_standby_is_passed_over_and_then_asked_last(running: list[FakeNameNode]) -> None:
    standby = FakeNameNode(403, remote("StandbyException"))
    active = FakeNameNode(200, BLOCKS)
    web = client(running, standby, active)
    for _ in range(3):
        assert len(web.locate("/x")) == 1
    assert len(standby.asked) == 1
    web.close()


def test_when_nobody_tells_each_is_named(running: list[FakeNameNode]) -> None:
    standby = FakeNameNode(403, remote("StandbyException"))
    gone = FakeNameNode(200, BLOCKS)
    web = client(running, standby, gone)
    running.remove(gone)
    gone.close()
    with pytest.raises(StorageError, match=r"on standby.*refused.*dfs\.webhdfs\.enabled") as caught:
        web.locate("/x")
    assert gone.url in str(caught.value)
    web.close()


@pytest.mark.parametrize(
    ("status", "answer", "error", "says"),
    [
        (404, remote("FileNotFoundException"), NotFoundError, "no such file"),
        (401, {}, StorageError, "SPNEGO"),
        (403, remote("AccessControlException"), StorageError, "AccessControlException"),
        (200, {"something": "else"}, ProtocolError, "without block locations"),
        (200, [], ProtocolError, "without block locations"),
    ],
)
def test_a_refusal_is_told(
    running: list[FakeNameNode], status: int, answer: object, error: type[Exception], says: str
) -> None:
    web = client(running, FakeNameNode(status, answer))
    with pytest.raises(error, match=says):
        web.locate("/x")
    web.close()
