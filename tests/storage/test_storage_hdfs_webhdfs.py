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
from headrace.storage.hdfs.observing import Observing
from headrace.storage.hdfs.webhdfs import WebHdfs
from headrace.storage.hdfs.webports import WebPorts
from headrace.storage.port import BlockPlace, NodeState, Replica

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
    """Answers every request alike, and notes them; it tells none of its settings."""

    def __init__(self, status: int, answer: object, *, keep_alive: bool = True) -> None:
        asked = self.asked = []
        body = json.dumps(answer).encode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

            def do_GET(self) -> None:
                asked.append((self.client_address, self.path))
                self.send_response(404 if self.path.startswith("/conf") else status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

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


class Running:
    """The servers of one test, and the connections to them."""

    def __init__(self) -> None:
        self.servers: list[FakeNameNode] = []
        self.ports = WebPorts(timeout_s=5)

    def address_of(self, *servers: FakeNameNode) -> HdfsAddress:
        self.servers.extend(servers)
        web = tuple(server.url for server in servers)
        return HdfsAddress(authority="x", root="", namenodes=("x:1",), web=web)


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.ports.close()
    for server in running.servers:
        server.close()


def client(running: Running, *servers: FakeNameNode) -> WebHdfs:
    return WebHdfs(running.address_of(*servers), HdfsConfig(user="ann"), running.ports)


def test_blocks_come_with_the_nodes_that_hold_them(running: Running) -> None:
    server = FakeNameNode(200, BLOCKS)
    web = client(running, server)
    replicas = (Replica("a", "1.1.1.1:9"), Replica("b", "2.2.2.2:9"))
    assert web.locate("/a b/x?y") == [BlockPlace(0, 7, replicas)]
    assert "/webhdfs/v1/a%20b/x%3Fy?" in server.asked[0][1]
    assert "user.name=ann" in server.asked[0][1]


def test_a_connection_is_used_again(running: Running) -> None:
    server = FakeNameNode(200, BLOCKS)
    web = client(running, server)
    for _ in range(5):
        web.locate("/x")
    assert len({peer for peer, _ in server.asked}) == 1


def test_a_server_that_ends_connections_is_asked_on_new_ones(running: Running) -> None:
    web = client(running, FakeNameNode(200, BLOCKS, keep_alive=False))
    assert [len(web.locate("/x")) for _ in range(3)] == [1, 1, 1]


def test_a_standby_is_passed_over_and_then_asked_last(running: Running) -> None:
    standby = FakeNameNode(403, remote("StandbyException"))
    active = FakeNameNode(200, BLOCKS)
    web = client(running, standby, active)
    for _ in range(3):
        assert len(web.locate("/x")) == 1
    assert len(standby.asked) == 1


def test_when_nobody_tells_each_is_named(running: Running) -> None:
    standby = FakeNameNode(403, remote("StandbyException"))
    gone = FakeNameNode(200, BLOCKS)
    web = client(running, standby, gone)
    running.servers.remove(gone)
    gone.close()
    with pytest.raises(StorageError, match=r"on standby.*refused.*dfs\.webhdfs\.enabled") as caught:
        web.locate("/x")
    assert gone.url in str(caught.value)


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
    running: Running, status: int, answer: object, error: type[Exception], says: str
) -> None:
    web = client(running, FakeNameNode(status, answer))
    with pytest.raises(error, match=says):
        web.locate("/x")


def test_a_standby_is_passed_over_when_files_are_joined(running: Running) -> None:
    standby = FakeNameNode(403, remote("StandbyException"))
    active = FakeNameNode(200, {})
    client(running, standby, active).concat("/a/x y", ["/a/1 2", "/a/3"])
    assert "/webhdfs/v1/a/x%20y?op=CONCAT" in active.asked[0][1]
    assert "sources=%2Fa%2F1+2%2C%2Fa%2F3" in active.asked[0][1]


def test_a_cluster_of_which_no_namenode_is_active_is_not_observed(running: Running) -> None:
    standby = FakeNameNode(200, {"beans": [{"name": "x,name=NameNodeStatus", "State": "standby"}]})
    other = FakeNameNode(200, {"beans": [{"name": "Hadoop:service=Other,name=X"}]})
    address = running.address_of(standby, other)
    says = r"on standby.*does not answer as a NameNode.*http-address"
    with pytest.raises(StorageError, match=says):
        Observing(address, running.ports).state()


def test_what_a_namenode_tells_of_its_cluster(running: Running) -> None:
    """A node that cannot be asked counts as busy as the mean; one out of service not at all."""
    server = FakeNameNode(200, JMX)
    state = Observing(running.address_of(server), running.ports).state()
    assert state.nodes == (
        NodeState(name="a", address="127.0.0.1:9", transfers=6, capacity_bytes=100, free_bytes=40),
    )
    assert (state.missing_copies, state.blocks_per_s, state.streams_per_node) == (7, 2 / 3, 2)


NODE = {"xferaddr": "127.0.0.1:9", "infoAddr": "127.0.0.1:1", "capacity": 100, "remaining": 40}

JMX = {
    "beans": [
        {"name": "x,name=NameNodeStatus", "State": "active"},
        {
            "name": "x,name=FSNamesystemState",
            "TotalLoad": 12,
            "NumLiveDataNodes": 2,
            "UnderReplicatedBlocks": 4,
            "PendingReplicationBlocks": 3,
        },
        {
            "name": "x,name=NameNodeInfo",
            "LiveNodes": json.dumps(
                {
                    "a:1": {**NODE, "adminState": "In Service"},
                    "b:1": {**NODE, "adminState": "Decommissioned"},
                }
            ),
        },
    ]
}
