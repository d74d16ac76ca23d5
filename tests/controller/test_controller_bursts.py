"""Checkpoints' rates: as long as they move, and no longer."""

from __future__ import annotations

import pytest
from reporters_for_tests import MB, Desk, FakeAgent, health, join

from headrace.controller import views
from headrace.controller.steward import MOST_BURSTS
from headrace.core.errors import NotFoundError, ReportError
from headrace.wire.control import Burst


def announce(desk: Desk, burst: str, deadline_s: float = 10.0) -> float:
    message = Burst(tier="hdd", nbytes=10**9, deadline_s=deadline_s)
    return desk.steward.announce_burst("a", burst, message).bytes_per_s


def work(desk: Desk, agent: FakeAgent, begin: int, end: int) -> None:
    for iteration in range(begin, end):
        desk.steward.take_health("a", health(iteration))
        agent.report({"a": 50 * MB})
        desk.advance(1.0)


def test_checkpoints_that_nobody_ends_are_forgotten_though_their_job_goes_on(desk: Desk) -> None:
    one = FakeAgent(desk, "n0")
    one.announce()
    join(desk, "a")
    for step in range(5):
        announce(desk, f"step-{step}")
    work(desk, one, 0, 30)
    assert announce(desk, "step-5", deadline_s=60.0) > 0
    work(desk, one, 30, 80)
    assert list(desk.steward.books.standing.bursts) == [("a", "step-5")]
    assert [burst.burst for burst in views.job(desk.steward, "a").bursts] == ["step-5"]


def test_a_checkpoint_that_is_ended_is_forgotten_at_once(desk: Desk) -> None:
    FakeAgent(desk, "n0").announce()
    join(desk, "a")
    announce(desk, "step-0")
    desk.steward.end_burst("a", "step-0")
    assert not desk.steward.books.standing.bursts


def test_a_job_that_never_ends_its_checkpoints_is_told_to(desk: Desk) -> None:
    FakeAgent(desk, "n0").announce()
    join(desk, "a")
    for step in range(MOST_BURSTS):
        announce(desk, f"step-{step}", deadline_s=1e9)
    announce(desk, "step-0", deadline_s=1e9)
    with pytest.raises(ReportError, match="end with DELETE those that are over"):
        announce(desk, "one more")
    desk.steward.end_burst("a", "step-0")
    announce(desk, "one more")


def test_a_tier_whose_last_agent_left_takes_no_checkpoint(desk: Desk) -> None:
    FakeAgent(desk, "n0").announce()
    join(desk, "a")
    desk.steward.end_agent("n0")
    with pytest.raises(NotFoundError, match="no tier 'hdd' here; there are none"):
        announce(desk, "step-0")
    assert not desk.steward.books.standing.tiers
