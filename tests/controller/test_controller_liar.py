"""A job that always says it starves, at a real controller: its loan, and what the ledger tells."""

from __future__ import annotations

import time

import pytest
from reporters_for_tests import MB, announced, starving

from headrace.cli.main import run
from headrace.controller.local import LocalController
from headrace.wire.connection import Connection
from headrace.wire.control import HealthAnswer
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Ledger

TIER = 600 * MB
POOL = 0.15 * TIER
JOBS = ("liar", "b", "c")
NEEDED_S = 30.0


def open_loans(link: Connection) -> dict[str, float]:
    entries = link.call("GET", "/v1/ledger?open=true", Ledger).entries
    return {entry.job: entry.bytes_per_s for entry in entries}


def test_its_loan_is_no_more_than_a_fair_part_while_others_wait_and_the_ledger_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalController(options=("--tier", "hdd=600MB")) as controller:
        link = Connection(Endpoint(address=controller.address, token=controller.token))
        for job in JOBS:
            link.call("PUT", f"/v1/jobs/{job}", HealthAnswer, announced())
        shared = 0
        deadline = time.monotonic() + NEEDED_S
        for iteration in range(10_000):
            assert time.monotonic() < deadline, "the three never borrowed together"
            for job in JOBS if iteration > 8 else JOBS[:1]:
                report = starving(iteration, next_bytes=10**12 if job == "liar" else 5 * 10**8)
                link.call("POST", f"/v1/jobs/{job}/health", HealthAnswer, report)
            loans = open_loans(link)
            assert sum(loans.values()) <= POOL * (1 + 1e-9)
            if len(loans) == len(JOBS):
                assert loans["liar"] <= POOL / len(JOBS) * 1.01
                shared += 1
            if shared >= 5:
                break
            time.sleep(0.1)
        link.close()
        monkeypatch.setenv("HEADRACE_CONTROLLER", controller.address)
        monkeypatch.setenv("HEADRACE_TOKEN", controller.token)
        assert run(["ledger", "--job", "liar"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 5
    assert all(line.startswith("liar") for line in lines[1::2])
    assert all("score" in line and "lacks" in line for line in lines[2::2])
