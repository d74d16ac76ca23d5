"""Links: jobs never say that their bytes cross one, so what agents send tells."""

from __future__ import annotations

from typing import Any

import pytest
from reporters_for_tests import MB, Desk, FakeAgent, health, join

from headrace.controller import views


def train(
    desk: Desk, needs: dict[str, float], agents: dict[FakeAgent, dict[str, float]], steps: range
) -> None:
    """Let jobs read what they need once a second, and agents send what they send [B/s]."""
    for iteration in steps:
        for one, sent in agents.items():
            one.report(needs if sent else {}, sent)
        for job, need in needs.items():
            received = sum(sent.get(job, 0.0) for sent in agents.values())
            desk.steward.take_health(job, reading(iteration, need, agent_bytes_per_s=received))
        desk.advance(1.0)


def reading(iteration: int, need: float, **changed: Any) -> Any:
    batches = {"next_bytes": round(need), "upcoming_bytes": (round(need),) * 4}
    return health(iteration, **{**batches, "read_bytes_per_s": need, **changed})


def share(desk: Desk, job: str, tier: str = "wan") -> Any:
    return views.job(desk.steward, job).tiers[tier]


def estate(desk: Desk, *jobs: str, **links: float) -> list[FakeAgent]:
    agents = [FakeAgent(desk, name, link=rate or None) for name, rate in links.items()]
    for one in agents:
        one.announce()
    for job in jobs:
        join(desk, job)
    return agents


def test_a_job_is_given_of_a_link_what_it_needs_of_it(desk: Desk) -> None:
    (only,) = estate(desk, "large", "small", n0=60 * MB)
    needs = {"large": 40 * MB, "small": 2 * MB}
    train(desk, needs, {only: needs}, range(10))
    assert share(desk, "large").asked_bytes_per_s >= 40 * MB
    assert share(desk, "large").granted_bytes_per_s >= 40 * MB
    assert only.enforced["large"]["wan"] >= 40 * MB


def test_what_crosses_a_link_may_be_more_than_what_is_read_for_it(desk: Desk) -> None:
    (only,) = estate(desk, "decoded", "stored", n0=100 * MB)
    needs = {"decoded": 10 * MB, "stored": 10 * MB}
    train(desk, needs, {only: {"decoded": 60 * MB, "stored": 10 * MB}}, range(10))
    assert share(desk, "decoded").granted_bytes_per_s >= 60 * MB
    assert share(desk, "stored").asked_bytes_per_s < 20 * MB


def test_of_a_link_that_a_part_of_its_bytes_crosses_a_job_needs_that_part(desk: Desk) -> None:
    near, far = estate(desk, "a", near=0.0, far=60 * MB)
    train(desk, {"a": 40 * MB}, {near: {"a": 30 * MB}, far: {"a": 10 * MB}}, range(20))
    assert 10 * MB <= share(desk, "a").asked_bytes_per_s < 15 * MB
    assert share(desk, "a", "hdd").asked_bytes_per_s >= 40 * MB


@pytest.mark.parametrize("received", [0.0, 40 * MB])
def test_of_a_link_that_it_never_crosses_a_job_wants_nothing(desk: Desk, received: float) -> None:
    near, far = estate(desk, "a", near=0.0, far=60 * MB)
    sent = {"a": received} if received else {}
    train(desk, {"a": 40 * MB}, {near: sent, far: {}}, range(20))
    assert share(desk, "a").asked_bytes_per_s < 1 * MB


def test_until_an_agent_tells_what_it_sends_a_job_may_use_its_link(desk: Desk) -> None:
    estate(desk, "a", "b", n0=60 * MB)
    for iteration in range(3):
        desk.steward.take_health("a", reading(iteration, 40 * MB, agent_bytes_per_s=40 * MB))
        desk.steward.take_health("b", reading(iteration, 2 * MB, agent_bytes_per_s=2 * MB))
        desk.advance(1.0)
        assert share(desk, "a").granted_bytes_per_s >= 40 * MB
