"""A controller that was stopped for a while: its own absence is nobody's silence."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from reporters_for_tests import MB, Desk, FakeAgent, agent, announced, join, starving

from headrace.controller.local import LocalController
from headrace.controller.waking import WakingClock
from headrace.core.clock import ManualClock
from headrace.wire.connection import Connection
from headrace.wire.control import AgentOrders, HealthAnswer
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Estate


def test_time_passes_as_it_does_while_somebody_looks_often() -> None:
    outer = ManualClock(100.0)
    clock = WakingClock(outer, most_s=1.0)
    for _ in range(20):
        outer.advance(0.5)
        clock.now()
    assert clock.now() == 110.0


def test_a_time_in_which_nobody_looked_counts_little() -> None:
    outer = ManualClock(100.0)
    clock = WakingClock(outer, most_s=1.0)
    outer.advance(3600.0)
    assert clock.now() == 101.0
    outer.advance(0.5)
    assert clock.now() == 101.5


def test_jobs_agents_and_loans_are_given_the_time_again(desk: Desk) -> None:
    desk.steward.clock = WakingClock(desk.clock, most_s=1.0)
    one = FakeAgent(desk, "n0")
    one.announce()
    join(desk, "a"), join(desk, "b")
    for iteration in range(20):
        for job in "ab":
            desk.steward.take_health(job, starving(iteration, next_bytes=700_000_000))
        one.report({"a": 100 * MB, "b": 100 * MB})
        desk.advance(0.5)
    loans = desk.steward.books.ledger.open_loans()
    assert loans
    desk.clock.advance(3600.0)
    desk.steward.tick()
    assert list(desk.steward.jobs) == ["a", "b"]
    assert not desk.steward.agents["n0"].silent
    assert desk.steward.books.ledger.open_loans() == loans


@pytest.fixture
def controller() -> Iterator[LocalController]:
    with LocalController(options=("--agent-silent", "4", "--job-silent", "15")) as running:
        yield running


def test_a_controller_that_is_stopped_and_continues_knows_everybody_still(
    controller: LocalController,
) -> None:
    link = Connection(Endpoint(address=controller.address, token=controller.token))
    link.call("PUT", "/v1/agents/n0", AgentOrders, agent())
    link.call("PUT", "/v1/jobs/a", HealthAnswer, announced())
    os.kill(controller.pid, signal.SIGSTOP)
    time.sleep(5.0)
    os.kill(controller.pid, signal.SIGCONT)
    time.sleep(0.6)  # a tick
    estate = link.call("GET", "/v1/estate", Estate)
    link.close()
    assert not estate.agents[0].silent
    assert [tier.bytes_per_s for tier in estate.tiers] == [400 * MB]
