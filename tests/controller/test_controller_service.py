"""The controller's HTTP interface, by a real one in a process of its own."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from reporters_for_tests import MB, agent, agent_report, announced, health

from headrace.controller.calls import CALLS
from headrace.controller.local import LocalController
from headrace.core.errors import AuthError, RefusedError
from headrace.wire.connection import Connection
from headrace.wire.control import BINARY, AgentOrders, Burst, BurstAnswer, HealthAnswer
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Agents, Decisions, Estate, Jobs, JobView, Ledger
from headrace.wire.messages import ErrorAnswer


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    with LocalController(options=("--tier", "hdd=600MB", "--tier", "fast:ssd=4GB")) as running:
        yield running


@pytest.fixture
def connection(controller: LocalController) -> Iterator[Connection]:
    opened = Connection(
        Endpoint(address=controller.address, token=controller.token, service="controller")
    )
    yield opened
    opened.close()


def ask(
    controller: LocalController,
    method: str,
    path: str,
    body: bytes = b"",
    kind: str = "application/json",
    token: str | None = None,
) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(controller.address.removeprefix("http://"), timeout=10)
    headers = {"Authorization": f"Bearer {token or controller.token}", "Content-Type": kind}
    try:
        client.request(method, path, body or None, headers)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def code_of(body: bytes) -> str:
    return msgspec.json.decode(body, type=ErrorAnswer).code


def test_a_job_from_its_announcement_to_its_end(connection: Connection) -> None:
    call = connection.call
    hello = call("PUT", "/v1/jobs/whole", HealthAnswer, announced())
    assert hello.quotas.keys() == {"hdd", "fast"}
    for iteration in range(3):
        answer = call("POST", "/v1/jobs/whole/health", HealthAnswer, health(iteration))
    assert 0 <= answer.score <= 100
    view = call("GET", "/v1/jobs/whole", JobView)
    assert (view.iteration, view.hosts_reporting) == (2, 1)
    assert view.tiers["hdd"].granted_bytes_per_s > 0
    assert "whole" in {job.job for job in call("GET", "/v1/jobs", Jobs).jobs}
    found = call("GET", "/v1/decisions?job=whole&kind=quota", Decisions)
    assert {one.tier for one in found.decisions} == {"hdd", "fast"}
    connection.send("DELETE", "/v1/jobs/whole?host=h0")
    assert connection.receive().status == 204
    with pytest.raises(RefusedError) as refused:
        call("GET", "/v1/jobs/whole", JobView)
    assert refused.value.code == "unknown-job"


def test_an_agent_from_its_announcement_to_its_end(connection: Connection) -> None:
    call = connection.call
    call("PUT", "/v1/jobs/read", HealthAnswer, announced())
    first = call("PUT", "/v1/agents/n1", AgentOrders, agent())
    assert first.every_s == 1.0
    orders = call("POST", "/v1/agents/n1/report", AgentOrders, agent_report(0, {"read": 50 * MB}))
    assert orders.quotas["read"]["hdd"] > 0
    (view,) = call("GET", "/v1/agents", Agents).agents
    assert view.jobs["read"].ordered == orders.quotas["read"]
    estate = call("GET", "/v1/estate", Estate)
    assert {tier.tier: tier.bytes_per_s for tier in estate.tiers}["hdd"] == 1000 * MB
    for path in ("/v1/agents/n1", "/v1/jobs/read"):
        connection.send("DELETE", path)
        assert connection.receive().status == 204


def test_a_checkpoint_is_given_a_rate(connection: Connection) -> None:
    call = connection.call
    call("PUT", "/v1/jobs/saves", HealthAnswer, announced())
    burst = Burst(tier="hdd", nbytes=10**9, deadline_s=10.0, urgent=True)
    answer = call("PUT", "/v1/jobs/saves/bursts/step-100", BurstAnswer, burst)
    assert answer.bytes_per_s > 0
    assert answer.reason
    connection.send("DELETE", "/v1/jobs/saves/bursts/step-100")
    assert connection.receive().status == 204
    with pytest.raises(RefusedError, match="no tier 'tape' here; there are"):
        call(
            "PUT",
            "/v1/jobs/saves/bursts/x",
            BurstAnswer,
            msgspec.structs.replace(burst, tier="tape"),
        )


def test_messages_travel_as_messagepack_too(controller: LocalController) -> None:
    body = msgspec.msgpack.encode(announced())
    status, answer = ask(controller, "PUT", "/v1/jobs/packed", body, BINARY)
    assert status == 200
    assert msgspec.msgpack.decode(answer, type=HealthAnswer).level == "healthy"
    body = msgspec.msgpack.encode(health(0))
    status, answer = ask(controller, "POST", "/v1/jobs/packed/health", body, BINARY)
    assert (status, msgspec.msgpack.decode(answer, type=HealthAnswer).every) == (200, 1)
    body = msgspec.msgpack.encode(health(1, wait_s=float("nan")))
    status, answer = ask(controller, "POST", "/v1/jobs/packed/health", body, BINARY)
    assert (status, code_of(answer)) == (400, "bad-report")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/jobs/j/health", b"{", 400, "bad-request"),
        ("/v1/jobs/j/health", b'{"host": 5}', 400, "bad-request"),
        ("/v1/jobs/j/health", b"\xff\xfe", 400, "bad-request"),
        ("/v1/jobs/j/health", msgspec.json.encode(health(0)) + b" " * 1024, 413, "too-large"),
        ("/v1/jobs/none/health", msgspec.json.encode(health(0)), 404, "unknown-job"),
        ("/v1/jobs/j/health", msgspec.json.encode(health(5)), 409, "stale-report"),
        ("/v1/jobs/j/health", msgspec.json.encode(health(6, boot="old")), 409, "stale-report"),
        ("/v1/jobs/j/health", msgspec.json.encode(health(6, wait_s=-1.0)), 400, "bad-report"),
        ("/v1/agents/none/report", msgspec.json.encode(agent_report(0)), 404, "unknown-agent"),
        ("/v1/jobs/j/helth", b"{}", 404, "no-route"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_a_name_and_a_sentence(
    controller: LocalController, path: str, body: bytes, status: int, code: str
) -> None:
    assert ask(controller, "PUT", "/v1/jobs/j", msgspec.json.encode(announced()))[0] == 200
    ask(controller, "POST", "/v1/jobs/j/health", msgspec.json.encode(health(5)))
    found, answer = ask(controller, "POST", path, body)
    assert (found, code_of(answer)) == (status, code)
    assert len(msgspec.json.decode(answer, type=ErrorAnswer).error) > 20


@pytest.mark.parametrize("path", [call.path for call in CALLS] + ["/metrics", "/openapi.json"])
def test_nothing_is_told_without_the_token(controller: LocalController, path: str) -> None:
    for token in ("x" * 20, ""):
        status, answer = ask(controller, "GET", path, token=token or "-")
        assert (status, code_of(answer)) == (401, "unauthorized")


def test_a_wrong_token_is_an_auth_error_of_the_controllers(controller: LocalController) -> None:
    wrong = Connection(Endpoint(address=controller.address, token="y" * 20, service="controller"))
    with pytest.raises(AuthError, match="use the controller's own"):
        wrong.call("GET", "/v1/jobs", Jobs)
    wrong.close()


def test_healthz_needs_no_token(controller: LocalController) -> None:
    assert ask(controller, "GET", "/healthz", token="-") == (200, b"ok\n")


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("ledger?limit=x", "limit"),
        ("ledger?since=yesterday", "seconds since 1970"),
        ("ledger?since=nan", "seconds since 1970"),
        ("ledger?before=-", "whole numbers"),
        ("ledger?limit=0", "limit"),
        ("ledger?open=maybe", "true, false"),
        ("ledger?kind=loans", "loan, refusal"),
        ("decisions?kind=loan", "quota, diagnosis"),
        ("decisions?open=true", "knows no 'open'"),
        ("jobs?level=bad", "healthy, tight, danger, critical"),
        ("jobs?levle=danger", "did you mean 'level'?"),
        ("agents?job=a", "leave it out"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_and_never_ignored(
    controller: LocalController, query: str, hint: str
) -> None:
    status, answer = ask(controller, "GET", f"/v1/{query}")
    assert (status, code_of(answer)) == (400, "bad-request")
    assert hint in msgspec.json.decode(answer, type=ErrorAnswer).error


def test_the_ledger_is_empty_where_nothing_was_lent(connection: Connection) -> None:
    assert connection.call("GET", "/v1/ledger?job=nobody", Ledger) == Ledger(entries=())


def test_metrics_are_lines_that_prometheus_reads(controller: LocalController) -> None:
    name = 'quo"te\\'
    path = f"/v1/jobs/{name.replace(chr(34), '%22').replace(chr(92), '%5C')}"
    assert ask(controller, "PUT", path, msgspec.json.encode(announced()))[0] == 200
    status, answer = ask(controller, "GET", "/metrics")
    assert status == 200
    text = answer.decode()
    assert 'headrace_job_health{job="quo\\"te\\\\"} 100.0' in text
    for line in text.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            float(value)
            assert series.startswith("headrace_")
            assert series.endswith("}")
    ask(controller, "DELETE", path)


def test_the_description_names_every_call_and_every_message(controller: LocalController) -> None:
    _, answer = ask(controller, "GET", "/openapi.json")
    found: dict[str, Any] = msgspec.json.decode(answer)
    assert found["openapi"] == "3.1.0"
    described = {(m.upper(), path) for path, calls in found["paths"].items() for m in calls}
    assert described == {(call.method, call.path) for call in CALLS}
    (level,) = found["paths"]["/v1/jobs"]["get"]["parameters"]
    assert (level["in"], level["name"]) == ("query", "level")
    assert level["schema"]["enum"] == ["healthy", "tight", "danger", "critical"]
    schemas = found["components"]["schemas"]
    assert {
        "HealthReport",
        "HealthAnswer",
        "AgentOrders",
        "Estate",
        "LedgerEntry",
    } <= schemas.keys()
    referenced = set(_references(found))
    assert referenced <= {f"#/components/schemas/{name}" for name in schemas}
    identifiers = [
        call["operationId"] for calls in found["paths"].values() for call in calls.values()
    ]
    assert len(set(identifiers)) == len(identifiers)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
