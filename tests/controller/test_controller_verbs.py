"""``headrace jobs``, ``agents``, ``ledger`` and ``top`` over a real controller: filters, names."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from reporters_for_tests import agent, announced, health, starving

from headrace.cli.main import run
from headrace.controller.local import LocalController
from headrace.wire.connection import Connection
from headrace.wire.control import AgentOrders, HealthAnswer, TierOffer
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Ledger
from waiting import eventually

TITLE = "[bold]x [/] [red]"
AGENT = "[blink]n1"
TIER = "[red]"


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    """One that knows a job in need, which borrows, and one that is well, both with odd names."""
    with LocalController() as running:
        link = Connection(Endpoint(address=running.address, token=running.token))
        offer = TierOffer(tier=TIER, media="hdd", bytes_per_s=200e6)
        link.call("PUT", "/v1/agents/%5Bblink%5Dn1", AgentOrders, agent(tiers=(offer,)))
        for job in ("well", "sick"):
            title = TITLE + job
            link.call("PUT", f"/v1/jobs/{job}", HealthAnswer, announced(title=title))
        more = {"split": {TIER: 1.0}, "next_bytes": 400_000_000}
        iterations = itertools.count()

        def has_borrowed() -> bool:
            iteration = next(iterations)
            link.call("POST", "/v1/jobs/well/health", HealthAnswer, health(iteration, **more))
            link.call("POST", "/v1/jobs/sick/health", HealthAnswer, starving(iteration, **more))
            time.sleep(0.2)  # rounds are half a second apart
            entries = link.call("GET", "/v1/ledger", Ledger).entries
            return iteration >= 7 and any(entry.ended_at is not None for entry in entries)

        eventually(has_borrowed)
        link.close()
        yield running


@pytest.fixture(autouse=True)
def asked(controller: LocalController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTROLLER", controller.address)
    monkeypatch.setenv("HEADRACE_TOKEN", controller.token)
    monkeypatch.setenv("COLUMNS", "200")


def told(verb: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run([*verb, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_jobs_of_a_level_and_worse_are_listed_and_no_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(told(["jobs"], capsys)["jobs"]) == 2
    for level in ("tight", "danger", "critical"):
        (sick,) = told(["jobs", "--level", level], capsys)["jobs"]
        assert (sick["job"], sick["level"]) == ("sick", "critical")


def test_the_ledger_tells_of_one_job_of_open_loans_and_of_lately(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = told(["ledger"], capsys)["entries"]
    assert {entry["job"] for entry in whole} >= {"sick"}
    mine = told(["ledger", "--job", "sick"], capsys)["entries"]
    assert [entry["entry"] for entry in mine] == [
        entry["entry"] for entry in whole if entry["job"] == "sick"
    ]
    assert told(["ledger", "--job", "nobody"], capsys)["entries"] == []
    ended = [entry["entry"] for entry in whole if entry.get("ended_at") is not None]
    still = [entry["entry"] for entry in told(["ledger", "--open"], capsys)["entries"]]
    assert ended
    assert set(still).isdisjoint(ended)
    assert len(told(["ledger", "--limit", "1"], capsys)["entries"]) == 1
    assert len(told(["ledger", "--since", "1h"], capsys)["entries"]) == len(whole)


@pytest.mark.parametrize("verb", ["jobs", "agents", "ledger", "top"])
def test_names_are_shown_as_they_are_written(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb]) == 0
    out = capsys.readouterr().out
    expected = {
        "jobs": [TITLE + "sick", TIER],
        "agents": [AGENT, TIER],
        "ledger": [TITLE + "sick", TIER, f"of {TIER}"],
        "top": [TITLE + "sick", AGENT, TIER],
    }
    for name in expected[verb]:
        assert name in out
