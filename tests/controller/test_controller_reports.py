"""Reports that are lost, late, twice, out of order, malformed, unknown or from an earlier start."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from reporters_for_tests import Desk, FakeAgent, agent, agent_report, announced, health, join

from headrace.controller import agents, jobs, views
from headrace.controller.jobs import MOST_SKIPPED
from headrace.controller.refusals import StaleReportError, UnknownAgentError, UnknownJobError
from headrace.controller.steward import Steward
from headrace.core.errors import HeadraceError, ReportError
from headrace.wire.control import Burst, HealthReport


def state_of(desk: Desk) -> bytes:
    steward = desk.steward
    found = (
        views.jobs(steward),
        views.agents(steward),
        views.tiers(steward),
        list(steward.books.ledger.rows),
        list(steward.books.decisions.rows),
        steward.reports,
    )
    return msgspec.json.encode(found)


def test_a_report_of_an_unknown_job_is_refused_with_what_to_do(desk: Desk) -> None:
    with pytest.raises(UnknownJobError, match="announce it with PUT first"):
        desk.steward.take_health("nobody", health(0))


def test_a_host_that_did_not_announce_itself_is_told_to(desk: Desk) -> None:
    join(desk, "a")
    with pytest.raises(UnknownJobError, match="host 'h1' of job 'a'"):
        desk.steward.take_health("a", health(0, host="h1"))


@pytest.mark.parametrize("iteration", [7, 6, 0])
def test_a_report_that_comes_twice_or_late_is_stale(desk: Desk, iteration: int) -> None:
    join(desk, "a")
    desk.steward.take_health("a", health(7))
    before = state_of(desk)
    with pytest.raises(StaleReportError, match="iteration 7 already"):
        desk.steward.take_health("a", health(iteration, queue_depth=0.0))
    assert state_of(desk) == before


def test_lost_reports_do_not_hold_up_later_ones(desk: Desk) -> None:
    join(desk, "a")
    desk.steward.take_health("a", health(0))
    desk.steward.take_health("a", health(40))
    assert views.job(desk.steward, "a").iteration == 40


def test_an_iteration_far_ahead_is_refused_until_it_is_announced(desk: Desk) -> None:
    join(desk, "a")
    with pytest.raises(StaleReportError, match="with the iterations it has done"):
        desk.steward.take_health("a", health(MOST_SKIPPED + 1))
    desk.steward.take_health("a", health(0))
    join(desk, "a", iteration=MOST_SKIPPED + 1)
    desk.steward.take_health("a", health(MOST_SKIPPED + 1))
    assert views.job(desk.steward, "a").iteration == MOST_SKIPPED + 1


def test_a_job_that_goes_on_after_millions_of_iterations_is_heard(desk: Desk) -> None:
    join(desk, "a", iteration=2 * MOST_SKIPPED)
    desk.steward.take_health("a", health(2 * MOST_SKIPPED))
    assert views.job(desk.steward, "a").iteration == 2 * MOST_SKIPPED


def test_a_job_that_was_never_ill_is_told_its_own_score(desk: Desk) -> None:
    answer = join(desk, "a")
    assert (answer.score, answer.reason) == (100.0, "it has not reported yet")
    desk.steward.take_health("a", health(0, queue_depth=2.9))
    desk.advance(1.0)
    answer = desk.steward.take_health("a", health(1, queue_depth=2.9))
    assert answer.level == "healthy"
    assert answer.score < 100
    assert answer.reason == ""


def test_a_report_of_an_earlier_start_is_stale(desk: Desk) -> None:
    join(desk, "a", boot="b0")
    desk.steward.take_health("a", health(5, boot="b0"))
    join(desk, "a", boot="b1")
    with pytest.raises(StaleReportError, match="start 'b0'"):
        desk.steward.take_health("a", health(6, boot="b0"))
    desk.steward.take_health("a", health(0, boot="b1"))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0, -1e-9])
@pytest.mark.parametrize(
    "name",
    [
        "step_time_s",
        "wait_s",
        "queue_depth",
        "queue_capacity",
        "io_latency_s",
        "io_latency_cv",
        "queue_share",
        "throttled_share",
        "hit_rate",
        "transform_share",
        "nic_bytes_per_s",
        "agent_bytes_per_s",
        "read_bytes_per_s",
    ],
)
def test_a_number_that_cannot_be_true_is_refused_by_name(
    desk: Desk, name: str, wrong: float
) -> None:
    join(desk, "a")
    before = state_of(desk)
    with pytest.raises(ReportError, match=name):
        desk.steward.take_health("a", health(0, **{name: wrong}))
    assert state_of(desk) == before


@pytest.mark.parametrize(
    "changed",
    [
        {"iteration": -1},
        {"iteration": 10**400},
        {"next_bytes": 10**400},
        {"next_bytes": -1},
        {"upcoming_bytes": (1,) * 9},
        {"upcoming_bytes": (-1,)},
        {"split": {"hdd": 1.5}},
        {"split": {"hdd": math.nan}},
        {"split": {f"t{n}": 0.01 for n in range(17)}},
        {"split": {"": 1.0}},
        {"split": {"x" * 300: 1.0}},
        {"direct_bytes": {"hdd": -5}},
        {"ranks": 0},
    ],
)
def test_other_nonsense_is_refused_too(desk: Desk, changed: dict[str, Any]) -> None:
    join(desk, "a")
    before = state_of(desk)
    with pytest.raises(ReportError):
        desk.steward.take_health("a", health(changed.pop("iteration", 0), **changed))
    assert state_of(desk) == before


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": 0.0},
        {"weight": math.nan},
        {"hosts": 9},
        {"hosts": 0},
        {"step_time_s": math.inf},
        {"guaranteed": {"hdd": -1.0}},
        {"upcoming_bytes": (1,) * 1025},
        {"iteration": -1},
        {"host": ""},
        {"title": "x" * 257},
        {"title": "\x1b[31m"},
        {"title": "two\nlines"},
        {"title": "\u202ebackwards"},
    ],
)
def test_an_announcement_that_makes_no_sense_is_refused(
    desk: Desk, changed: dict[str, Any]
) -> None:
    with pytest.raises(ReportError):
        join(desk, "a", **changed)
    assert not desk.steward.jobs


def test_agents_reports_are_taken_once_and_in_order(desk: Desk) -> None:
    desk.steward.announce_agent("n1", agent())
    desk.steward.take_agent_report("n1", agent_report(3))
    for sequence in (3, 2):
        with pytest.raises(StaleReportError, match="twice or late"):
            desk.steward.take_agent_report("n1", agent_report(sequence))
    with pytest.raises(StaleReportError, match="start 'a9'"):
        desk.steward.take_agent_report("n1", agent_report(4, boot="a9"))
    with pytest.raises(UnknownAgentError, match="announce it with PUT"):
        desk.steward.take_agent_report("n2", agent_report(0))


def test_two_agents_of_one_name_are_told_of_once_and_one_that_starts_again_is_not(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    for boot in ("a0", "a0", "a1", "a1", "a2"):
        desk.steward.announce_agent("n1", agent(boot=boot))
    assert not caplog.records
    for boot in ("a1", "a2", "a1", "a2"):
        desk.steward.announce_agent("n1", agent(boot=boot, address=f"http://{boot}:1"))
    (said,) = caplog.messages
    assert "two agents are called 'n1', at http://a1:1 and http://10.0.0.1:7411:" in said
    assert "--name" in said


@pytest.mark.parametrize("nbytes", [-1, 10**400])
def test_an_agents_number_that_cannot_be_true_is_refused(desk: Desk, nbytes: int) -> None:
    desk.steward.announce_agent("n1", agent())
    before = state_of(desk)
    spoiled = msgspec.structs.replace(agent_report(0, {"a": 1.0}).jobs["a"], tensor_bytes=nbytes)
    with pytest.raises(ReportError, match="tensor_bytes"):
        desk.steward.take_agent_report(
            "n1", msgspec.structs.replace(agent_report(0), jobs={"a": spoiled})
        )
    assert state_of(desk) == before


def test_who_names_agents_anew_each_time_is_told_to_keep_their_names(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "MOST_AGENTS", 1)
    desk.steward.announce_agent("n1", agent())
    desk.steward.announce_agent("n1", agent(boot="a1"))
    with pytest.raises(ReportError, match=r"1 agents already; let each keep its name .*--name"):
        desk.steward.announce_agent("n2", agent())


def test_hosts_that_name_themselves_anew_each_time_are_too_many_at_last(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_HOSTS", 2)
    join(desk, "a", host="h0")
    join(desk, "b", host="h0")
    for job in ("a", "c"):
        with pytest.raises(ReportError, match=r"2 hosts already; .* with DELETE"):
            join(desk, job, host="h1")
    join(desk, "a", host="h0", boot="b1")
    assert set(desk.steward.jobs) == {"a", "b"}


def test_a_tier_that_is_offered_twice_by_one_agent_is_refused(desk: Desk) -> None:
    offer = agent().tiers[0]
    with pytest.raises(ReportError, match="named once"):
        desk.steward.announce_agent("n1", agent(tiers=(offer, offer)))


def test_a_burst_on_a_tier_that_nobody_offers_is_refused(desk: Desk) -> None:
    join(desk, "a")
    with pytest.raises(HeadraceError, match="no tier 'hdd' here"):
        desk.steward.announce_burst("a", "ckpt", Burst(tier="hdd", nbytes=1, deadline_s=1.0))


@seed(5)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_report_with_any_byte_changed_is_taken_whole_or_leaves_everything_as_it_was(
    data: st.DataObject,
) -> None:
    desk = Desk()
    FakeAgent(desk, "n1").announce()
    join(desk, "a")
    desk.steward.take_health("a", health(0))
    binary = data.draw(st.booleans())
    coder = msgspec.msgpack if binary else msgspec.json
    body = bytearray(coder.encode(health(1)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    before = state_of(desk)
    try:
        report = coder.decode(bytes(body), type=HealthReport)
        desk.steward.take_health("a", report)
    except (msgspec.MsgspecError, UnicodeDecodeError, HeadraceError):
        assert state_of(desk) == before
    else:
        newest = desk.steward.jobs["a"].newest_report
        assert newest is not None
        assert coder.encode(newest) == coder.encode(report)
        assert state_of(desk)  # and all of it can be shown


BURST = Burst(tier="hdd", nbytes=10**9, deadline_s=10.0)
CALLS: dict[str, tuple[msgspec.Struct, Callable[[Steward, Any], object]]] = {
    "job": (
        announced(guaranteed={"hdd": 1.5}, upcoming_bytes=(5, 7)),
        lambda steward, message: steward.announce_job("a", message),
    ),
    "agent": (
        agent(enforced={"a": {"hdd": 1.5}}),
        lambda steward, message: steward.announce_agent("n1", message),
    ),
    "agent's report": (
        agent_report(1, {"a": 5.0, "b": 7.0}, enforced={"b": {"hdd": 1.5}}),
        lambda steward, message: steward.take_agent_report("n1", message),
    ),
    "burst": (BURST, lambda steward, message: steward.announce_burst("a", "ckpt", message)),
}


@pytest.mark.parametrize("what", CALLS)
@seed(6)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_byte_of_a_message_is_changed_it_is_taken_or_refused(
    what: str, data: st.DataObject
) -> None:
    desk = Desk()
    FakeAgent(desk, "n1").announce()
    join(desk, "a")
    message, send = CALLS[what]
    coder = msgspec.msgpack if data.draw(st.booleans()) else msgspec.json
    body = bytearray(coder.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, HeadraceError):
        send(desk.steward, coder.decode(bytes(body), type=type(message)))
    desk.advance(2.0)
    assert state_of(desk)  # and all of it can be shown


def test_a_job_whose_boot_changes_is_told_to_the_policy_once(desk: Desk) -> None:
    for host in ("h0", "h1"):
        join(desk, "a", host=host, hosts=2)
    for host in ("h0", "h1"):
        desk.steward.take_health("a", health(0, host=host))
    jobs = desk.steward.jobs
    assert jobs.announce("a", announced("h0", "b1", hosts=2), 1.0)
    assert not jobs.announce("a", announced("h1", "b1", hosts=2), 1.0)
    assert not jobs.announce("a", announced("h1", "b1", hosts=2), 1.0)
