"""Reports that cannot be taken, over HTTP in both encodings; and floods of them."""

from __future__ import annotations

import http.client
import itertools
import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import msgspec
import psutil
import pytest
from reporters_for_tests import MB, agent, agent_report, announced, health

from headrace.controller.call import MOST_BYTES
from headrace.controller.jobs import MOST_JOBS
from headrace.controller.local import LocalController
from headrace.wire.connection import MAX_CONTROL_BYTES, Connection
from headrace.wire.control import (
    BINARY,
    MOST_REPORT_BYTES,
    AgentOrders,
    HealthAnswer,
    JobUse,
    TierUse,
)
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import AgentView, Estate, JobView
from headrace.wire.messages import ErrorAnswer

JSON = "application/json"
CODERS: dict[str, ModuleType] = {JSON: msgspec.json, BINARY: msgspec.msgpack}
NAMES = itertools.count()


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    with LocalController(options=("--tier", "hdd=600MB")) as running:
        yield running


class Peer:
    """A job of one host, or an agent, that speaks one encoding; another one for each test."""

    def __init__(self, controller: LocalController, kind: str) -> None:
        self.name = f"peer-{next(NAMES)}"
        self._kind, self._coder = kind, CODERS[kind]
        self._token = controller.token
        address = controller.address.removeprefix("http://")
        self._client = http.client.HTTPConnection(address, timeout=10)

    def close(self) -> None:
        self._client.close()

    def send(self, method: str, path: str, message: Any) -> tuple[int, str]:
        """Return status and code of the answer to a message, or to bytes as they are."""
        body = message if isinstance(message, bytes) else self._coder.encode(message)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": self._kind}
        self._client.request(method, path, body, headers)
        answer = self._client.getresponse()
        said = answer.read()
        if answer.status == 200:
            return 200, ""
        refused = msgspec.json.decode(said, type=ErrorAnswer)
        assert len(refused.error) > 20
        return answer.status, refused.code

    def announce_job(self) -> None:
        assert self.send("PUT", f"/v1/jobs/{self.name}", announced()) == (200, "")

    def report(self, message: Any) -> tuple[int, str]:
        return self.send("POST", f"/v1/jobs/{self.name}/health", message)

    def announce_agent(self) -> None:
        assert self.send("PUT", f"/v1/agents/{self.name}", agent()) == (200, "")

    def report_as_agent(self, message: Any) -> tuple[int, str]:
        return self.send("POST", f"/v1/agents/{self.name}/report", message)


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def peer(controller: LocalController, request: pytest.FixtureRequest) -> Iterator[Peer]:
    made = Peer(controller, request.param)
    yield made
    made.close()


def estate_of(controller: LocalController) -> Estate:
    link = Connection(Endpoint(address=controller.address, token=controller.token))
    try:
        return link.call("GET", "/v1/estate", Estate)
    finally:
        link.close()


def job_of(controller: LocalController, name: str) -> JobView:
    """Return what was told of a job, without its part of tiers: that is divided twice a second."""
    (found,) = [job for job in estate_of(controller).jobs if job.job == name]
    return msgspec.structs.replace(found, age_s=0.0, tiers={}, loans=(), guaranteed={})


def agent_of(controller: LocalController, name: str) -> AgentView:
    (found,) = [one for one in estate_of(controller).agents if one.agent == name]
    return msgspec.structs.replace(found, age_s=0.0)


def test_reports_that_are_lost_late_or_twice(controller: LocalController, peer: Peer) -> None:
    peer.announce_job()
    told = [(iteration, peer.report(health(iteration))) for iteration in (0, 1, 5, 5, 3, 6)]
    stale = (409, "stale-report")
    assert told == [
        (0, (200, "")), (1, (200, "")), (5, (200, "")), (5, stale), (3, stale), (6, (200, "")),
    ]  # fmt: skip
    assert job_of(controller, peer.name).iteration == 6


def test_reports_of_nobody_or_of_an_earlier_start(peer: Peer) -> None:
    assert peer.report(health(0)) == (404, "unknown-job")
    peer.announce_job()
    assert peer.report(health(0, host="h9")) == (404, "unknown-job")
    assert peer.report(health(0, boot="earlier")) == (409, "stale-report")


def _without(field: str) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(health(1))
    del fields[field]
    return fields


@pytest.mark.parametrize(
    "message",
    [
        health(1, wait_s=math.nan),
        health(1, step_time_s=math.inf),
        health(1, read_bytes_per_s=1e300),
        health(1, wait_s=-1.0),
        health(1, next_bytes=2**64 - 1),
        health(2**60),
        health(1, split={"hdd": 2.0}),
        _without("boot"),
        msgspec.to_builtins(health(1)) | {"more": 1},
        msgspec.to_builtins(health(1)) | {"iteration": "1"},
        [1, 2, 3],
        b"",
        b"\xc1\xff{",
        b'{"host": "h0", "wait_s": 1e999}',
    ],
    ids=lambda message: str(message)[:40],
)
def test_a_report_that_cannot_be_true_changes_nothing(
    controller: LocalController, peer: Peer, message: Any
) -> None:
    peer.announce_job()
    peer.report(health(0))
    before = job_of(controller, peer.name)
    status, code = peer.report(message)
    assert status == 400
    assert code in ("bad-report", "bad-request")
    assert job_of(controller, peer.name) == before


def test_messages_that_are_too_long(peer: Peer) -> None:
    peer.announce_job()
    assert peer.report(b" " * (MOST_REPORT_BYTES + 1)) == (413, "too-large")
    assert peer.report_as_agent(b" " * (MOST_BYTES + 1)) == (413, "too-large")
    assert peer.report(health(0)) == (200, "")


def test_an_agent_may_tell_and_be_told_of_as_many_jobs_as_there_can_be() -> None:
    tier = TierUse(nbytes=10**12, reads=10**6, queued_s=1 / 3, read_s=1 / 3)
    tiers = ("a-fast-tier", "a-slow-tier", "a-link")
    use = JobUse(
        tiers=dict.fromkeys(tiers, tier),
        tensor_bytes=10**12,
        enforced=dict.fromkeys(tiers, 1e9 / 3),
    )
    jobs = {f"{number:032x}": use for number in range(MOST_JOBS)}
    report = msgspec.structs.replace(agent_report(0), jobs=jobs)
    assert len(msgspec.json.encode(report)) < MOST_BYTES
    orders = AgentOrders(quotas={name: dict(use.enforced) for name in jobs})
    assert len(msgspec.json.encode(orders)) < MAX_CONTROL_BYTES


def test_agents_reports_that_are_lost_late_twice_or_nobodys(
    controller: LocalController, peer: Peer
) -> None:
    assert peer.report_as_agent(agent_report(0)) == (404, "unknown-agent")
    peer.announce_agent()
    told = [peer.report_as_agent(agent_report(sequence)) for sequence in (0, 4, 4, 2, 5)]
    stale = (409, "stale-report")
    assert told == [(200, ""), (200, ""), stale, stale, (200, "")]
    assert peer.report_as_agent(agent_report(9, boot="earlier")) == stale
    before = agent_of(controller, peer.name)
    for spoiled in (
        msgspec.structs.replace(agent_report(6, {"a": 1.0}), interval_s=math.nan),
        msgspec.structs.replace(agent_report(6), cpu_share=-1.0),
        agent_report(6, {"a": 2.0**63}),
        agent_report(6, {"a": 1.0}, enforced={"a": {"hdd": math.inf}}),
        agent_report(6, {"a": 1.0}, enforced={"a": {"two\nlines": 1.0}}),
        b"\xc1",
    ):
        status, code = peer.report_as_agent(spoiled)
        assert status == 400
        assert code in ("bad-report", "bad-request")
    assert agent_of(controller, peer.name) == before


def dribbling(controller: LocalController, stack: ExitStack) -> Callable[[], None]:
    """Open 200 connections whose reports never end; return what sends a byte more of each."""
    host, port = controller.address.removeprefix("http://").split(":")
    head = (
        "POST /v1/jobs/flood/health HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {controller.token}\r\nContent-Length: 1000\r\n\r\n"
    )
    opened = []
    for _ in range(200):
        opened.append(stack.enter_context(socket.create_connection((host, int(port)), 10)))
        opened[-1].sendall(head.encode())

    def dribble() -> None:
        for one in opened:
            one.sendall(b" ")

    return dribble


def test_a_flood_of_bodies_that_never_end_keeps_nobody_from_being_heard(
    controller: LocalController,
) -> None:
    process = psutil.Process(controller.pid)
    with ExitStack() as stack:
        link = Connection(Endpoint(address=controller.address, token=controller.token))
        stack.callback(link.close)
        link.call("PUT", "/v1/jobs/flood", HealthAnswer, announced())
        before = process.memory_info().rss
        dribble = dribbling(controller, stack)
        longest_s = 0.0
        for iteration in range(60):
            dribble()
            began = time.monotonic()
            link.call("POST", "/v1/jobs/flood/health", HealthAnswer, health(iteration))
            longest_s = max(longest_s, time.monotonic() - began)
        assert longest_s < 10.0
        assert process.memory_info().rss - before < 64 * MB


def test_a_flood_of_reports_on_200_connections_is_answered_one_by_one(
    controller: LocalController,
) -> None:
    process = psutil.Process(controller.pid)
    with ExitStack() as stack:
        peers = [Peer(controller, BINARY) for _ in range(200)]
        for one in peers:
            stack.callback(one.close)
        peers[0].announce_job()
        for one in peers:
            one.name = peers[0].name
        before = process.memory_info().rss
        answers = [one.report(health(iteration)) for iteration in range(5) for one in peers]
        assert answers.count((200, "")) == 5
        assert answers.count((409, "stale-report")) == 5 * 199
        assert process.memory_info().rss - before < 64 * MB
    assert job_of(controller, peers[0].name).iteration == 4
