"""Everybody's part of a quota, agents' and hosts' own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reporters_for_tests import MB, Desk, FakeAgent, health, join

from headrace.controller import views
from headrace.wire.control import AgentReport, JobUse, TierOffer, TierUse


def granted(desk: Desk, job: str) -> float:
    return desk.steward.books.standing.quota(job, "hdd")


def apart(desk: Desk) -> tuple[FakeAgent, FakeAgent]:
    """Two agents, each of which reads for a job of its own."""
    first, second = FakeAgent(desk, "n0"), FakeAgent(desk, "n1")
    first.announce(), second.announce()
    join(desk, "a"), join(desk, "b")
    for iteration in range(30):
        for job in ("a", "b"):
            desk.steward.take_health(job, health(iteration))
        first.report({"a": 150 * MB})
        second.report({"b": 150 * MB})
        desk.advance(1.0)
    return first, second


def test_agents_and_hosts_together_never_get_more_than_the_quota(desk: Desk) -> None:
    agents = [FakeAgent(desk, f"n{number}") for number in range(3)]
    for one in agents:
        one.announce()
    join(desk, "a", host="h0", hosts=2)
    join(desk, "a", host="h1", hosts=2)
    for iteration in range(10):
        own = [
            desk.steward.take_health(
                "a", health(iteration, host=host, direct_bytes={"hdd": int(direct)})
            ).quotas["hdd"]
            for host, direct in (("h0", 50 * MB), ("h1", 1 * MB))
        ]
        orders = [one.report({"a": 100 * MB}).quotas["a"]["hdd"] for one in agents]
        assert sum(own) + sum(orders) <= granted(desk, "a") * (1 + 1e-9)
        desk.advance(1.0)
    assert own[0] > 2 * own[1], "the host that reads more gets more"


def test_a_silent_agents_part_goes_to_the_others_and_its_tier_is_not_counted_on(
    desk: Desk,
) -> None:
    first, second = FakeAgent(desk, "n0"), FakeAgent(desk, "n1")
    first.announce(), second.announce()
    join(desk, "a")
    for iteration in range(30):
        desk.steward.take_health("a", health(iteration))
        second.report({"a": 50 * MB})
        desk.advance(1.0)
    standing = desk.steward.books.standing
    assert standing.tiers["hdd"].bytes_per_s == 400 * MB
    assert first.desk.steward.agents["n0"].silent
    first.report({})
    assert standing.tiers["hdd"].bytes_per_s == 800 * MB


def test_an_agent_that_is_heard_again_is_told_its_quotas_at_once(desk: Desk) -> None:
    only = FakeAgent(desk, "n0")
    only.announce()
    join(desk, "a")
    for iteration in range(30):
        desk.steward.take_health("a", health(iteration))
        desk.advance(1.0)
    assert desk.steward.agents["n0"].silent
    orders = only.report({"a": 50 * MB})
    assert 50 * MB <= orders.quotas["a"]["hdd"] <= 400 * MB


def test_an_agent_that_announces_itself_again_keeps_its_part(desk: Desk) -> None:
    first, second = apart(desk)
    before = first.enforced["a"]["hdd"]
    assert before > 4 * second.enforced["a"]["hdd"]
    first.announce()
    assert first.enforced["a"]["hdd"] == pytest.approx(before, rel=0.05)


def test_an_agent_whose_process_began_anew_is_given_what_it_read_before(desk: Desk) -> None:
    first, _ = apart(desk)
    before, first.enforced = first.enforced["a"]["hdd"], {}
    first.announce()
    assert first.enforced["a"]["hdd"] == pytest.approx(before, rel=0.05)


def test_a_restart_of_the_controller_takes_nothing_from_an_agent_that_uses_its_part(
    open_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    desk = open_desk(tmp_path / "journal.db")
    busy = dict(zip("ab", apart(desk), strict=True))
    before = {job: one.enforced[job]["hdd"] for job, one in busy.items()}
    desk.close()
    again = open_desk(tmp_path / "journal.db", desk.clock)
    for one in busy.values():
        one.desk, one.sequence = again, 0
        one.announce()
    for job, one in busy.items():
        orders = one.report({job: 150 * MB})
        assert orders.quotas[job]["hdd"] == pytest.approx(before[job], rel=0.1)


def test_of_a_tier_that_an_agent_named_once_nothing_is_remembered(desk: Desk) -> None:
    one = FakeAgent(desk, "n0")
    one.announce()
    for sequence in range(3):
        jobs = {"a": JobUse(tiers={f"t{sequence}": TierUse(nbytes=1, reads=1)})}
        report = AgentReport(boot="a0", sequence=sequence, interval_s=1.0, jobs=jobs)
        desk.steward.take_agent_report("n0", report)
    assert set(desk.steward.agents["n0"].use) <= {"t2"}


def test_an_agent_that_leaves_is_not_counted_on_at_once(desk: Desk) -> None:
    FakeAgent(desk, "n0").announce()
    FakeAgent(desk, "n1").announce()
    desk.steward.end_agent("n0")
    assert desk.steward.books.standing.tiers["hdd"].bytes_per_s == 400 * MB


def test_storage_without_agents_is_divided_over_hosts() -> None:
    offer = TierOffer(tier="hdd", media="hdd", bytes_per_s=200 * MB)
    desk = Desk(tiers=(offer,))
    join(desk, "a", host="h0", hosts=2)
    answer = join(desk, "a", host="h1", hosts=2)
    desk.advance(1.0)
    desk.steward.take_health("a", health(0, host="h0"))
    answer = desk.steward.take_health("a", health(0, host="h1"))
    assert answer.quotas["hdd"] == pytest.approx(granted(desk, "a") / 2)


def test_jobs_that_fall_silent_end_and_give_back_what_they_had() -> None:
    desk = Desk(job_silent_s=60.0)
    one = FakeAgent(desk, "n0")
    one.announce()
    join(desk, "a")
    join(desk, "b")
    for iteration in range(70):
        desk.steward.take_health("b", health(iteration))
        orders = one.report({"b": 50 * MB})
        desk.advance(1.0)
    assert list(desk.steward.jobs) == ["b"]
    assert set(one.report({}).quotas) == {"b"}
    assert set(orders.quotas) == {"b"}


def test_a_job_ends_with_its_last_host(desk: Desk) -> None:
    join(desk, "a", host="h0", hosts=2)
    join(desk, "a", host="h1", hosts=2)
    desk.steward.end_job("a", "h0")
    assert list(desk.steward.jobs["a"].hosts) == ["h1"]
    desk.steward.end_job("a", "h1")
    assert not desk.steward.jobs


def test_a_host_whose_step_time_nobody_knows_is_asked_for_its_next_report() -> None:
    desk = Desk(most_reports_per_s=10.0)
    for number in range(40):
        answer = join(desk, "a", host=f"h{number}", hosts=40, world=320, step_time_s=0.0)
    desk.advance(1.0)
    assert answer.every == 1
    first = health(0, host="h0", step_time_s=0.0, wait_s=0.1)
    assert desk.steward.take_health("a", first).every == 1
    assert desk.steward.take_health("a", health(1, host="h0")).every == 4


def test_many_hosts_are_asked_to_report_less_often_and_not_at_once() -> None:
    desk = Desk(most_reports_per_s=10.0, most_at_once_per_s=100.0)
    for number in range(40):
        join(desk, "a", host=f"h{number}", hosts=40, world=320)
    desk.advance(1.0)
    answer = desk.steward.take_health("a", health(0, host="h0"))
    assert answer.every == 4, "40 hosts, 1 s a step, 10 reports a second"
    assert answer.stall_every_s == 4.0
    assert answer.spread_s == pytest.approx(0.25), "0.4 s, but a quarter of a step at most"


def test_a_job_of_which_nothing_is_known_is_not_said_to_ask_for_anything(desk: Desk) -> None:
    FakeAgent(desk, "n0").announce()
    join(desk, "a")
    desk.advance(1.0)
    (share,) = views.job(desk.steward, "a").tiers.values()
    assert (share.asked_bytes_per_s, share.granted_bytes_per_s) == (0.0, pytest.approx(400 * MB))
    desk.steward.take_health("a", health(0))
    desk.advance(1.0)
    assert views.job(desk.steward, "a").tiers["hdd"].asked_bytes_per_s == pytest.approx(55 * MB)
