"""What a restart keeps: jobs, quotas, loans and their timers; and that it moves no quota."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from reporters_for_tests import MB, Desk, FakeAgent, health, join, starving

from headrace.controller import views
from headrace.controller.jobs import MOST_SKIPPED
from headrace.controller.refusals import StaleReportError, UnknownAgentError

Open = Callable[..., Desk]


def busy_desk(open_desk: Open, path: Path) -> tuple[Desk, list[FakeAgent]]:
    """Three agents and three jobs of which one starves, for a minute."""
    desk = open_desk(path)
    agents = [FakeAgent(desk, f"n{number}") for number in range(3)]
    for one in agents:
        one.announce()
    for job in ("a", "b", "c"):
        join(desk, job)
    work(desk, agents, 0, 60)
    return desk, agents


def work(desk: Desk, agents: list[FakeAgent], begin: int, count: int) -> None:
    for iteration in range(begin, begin + count):
        for job in ("a", "b", "c"):
            report = starving if job == "a" else health
            desk.steward.take_health(job, report(iteration, next_bytes=700_000_000))
        for one in agents:
            one.report({"a": 100 * MB, "b": 60 * MB, "c": 30 * MB})
        desk.advance(1.0)


def restarted(open_desk: Open, desk: Desk, path: Path, away_s: float) -> Desk:
    """Open the journal again as a controller that was killed would: without a word."""
    desk.journal.close()
    desk.clock.advance(away_s)
    return open_desk(path, desk.clock)


def quotas_of(desk: Desk) -> dict[tuple[str, str], float]:
    return {
        (job.job, tier): share.granted_bytes_per_s
        for job in views.jobs(desk.steward).jobs
        for tier, share in job.tiers.items()
    }


def test_a_restart_moves_no_quota(open_desk: Open, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    before = quotas_of(desk)
    again = restarted(open_desk, desk, path, 60.0)
    assert quotas_of(again) == before
    for one in agents:
        one.desk = again
        orders = one.announce()
        assert orders.quotas
    assert again.steward.settles_until is None
    assert quotas_of(again) == pytest.approx(before, rel=0.05)


def test_until_all_agents_told_what_they_enforce_nothing_is_ordered_anew(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    again = restarted(open_desk, desk, path, 60.0)
    first = agents[0]
    first.desk = again
    with pytest.raises(UnknownAgentError, match="announce agent 'n0' again"):
        first.report({"a": MB})
    enforced = first.enforced
    orders = first.announce()
    assert (orders.quotas, orders.reorder) == (enforced, None)
    again.steward.take_health("a", starving(60))
    orders = first.report({"a": MB})
    assert (orders.quotas, orders.reorder) == (enforced, None)
    again.advance(6.0)
    assert again.steward.settles_until is None
    assert first.report({"a": MB}).reorder is not None


def test_meanwhile_hosts_are_told_to_keep_to_what_they_had(open_desk: Open, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    again = restarted(open_desk, desk, path, 60.0)
    assert again.steward.take_health("a", health(60)).settling
    for one in agents:
        one.desk = again
        one.announce()
    answer = again.steward.take_health("a", health(61))
    assert not answer.settling
    assert answer.quotas["hdd"] > 0


def test_an_agent_that_leaves_meanwhile_moves_no_quota_until_all_is_settled(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    before = quotas_of(desk)
    again = restarted(open_desk, desk, path, 60.0)
    again.steward.end_agent("n2")
    assert again.steward.settles_until is not None
    assert quotas_of(again) == before
    for one in agents[:2]:
        one.desk = again
        one.announce()
    assert again.steward.settles_until is None
    assert again.steward.books.standing.tiers["hdd"].bytes_per_s == 800 * MB
    assert 790 * MB <= sum(quotas_of(again).values()) <= 800 * MB


def test_a_restart_is_settled_when_the_last_agent_that_was_waited_for_leaves(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    again = restarted(open_desk, desk, path, 60.0)
    for one in agents[:2]:
        one.desk = again
        one.announce()
    assert again.steward.settles_until is not None
    again.steward.end_agent("n2")
    assert again.steward.settles_until is None


def test_afterwards_quotas_agree_with_what_agents_enforce(open_desk: Open, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    again = restarted(open_desk, desk, path, 60.0)
    for one in agents:
        one.desk, one.sequence = again, 0
        one.announce()
    work(again, agents, 60, 5)
    for one in agents:
        one.report({"a": 100 * MB, "b": 60 * MB, "c": 30 * MB})
    for job in views.jobs(again.steward).jobs:
        for share in job.tiers.values():
            assert share.enforced_bytes_per_s <= share.granted_bytes_per_s * 1.001
            assert share.enforced_bytes_per_s >= share.granted_bytes_per_s * 0.8
    tier = views.tiers(again.steward)[0]
    assert tier.granted_bytes_per_s <= tier.bytes_per_s


def test_a_host_that_is_millions_of_iterations_on_is_heard_again_after_a_restart(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk = open_desk(path)
    join(desk, "a")
    for iteration in range(0, 2_000_001, MOST_SKIPPED):
        desk.steward.take_health("a", health(iteration))
    again = restarted(open_desk, desk, path, 60.0)
    with pytest.raises(StaleReportError, match="announce it with PUT first"):
        again.steward.take_health("a", health(2_000_001))
    join(again, "a", iteration=2_000_001)
    again.steward.take_health("a", health(2_000_001))
    assert views.job(again.steward, "a").iteration == 2_000_001


def test_a_loan_that_ran_out_meanwhile_is_closed_with_that_reason(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk, _ = busy_desk(open_desk, path)
    loans = desk.steward.books.ledger.open_loans()
    assert loans, "the starving job holds a loan"
    again = restarted(open_desk, desk, path, 600.0)
    assert again.steward.books.ledger.open_loans() == []
    found = again.steward.books.ledger.rows.get(loans[0].entry)
    assert found is not None
    assert "while the controller was away" in found.end_reason


def test_a_loan_that_did_not_run_out_goes_on_with_its_timer(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    (loan,) = desk.steward.books.ledger.open_loans()
    assert loan.expires_at is not None
    again = restarted(open_desk, desk, path, 0.25)
    for one in agents:
        one.desk = again
        one.announce()
    (kept,) = again.steward.books.ledger.open_loans()
    assert kept == loan
    again.advance(loan.expires_at - again.steward.wall() + 1.0)
    ended = again.steward.books.ledger.rows.get(loan.entry)
    assert ended is not None
    assert ended.ended_at == pytest.approx(loan.expires_at, abs=1.0)


def test_a_loan_of_a_tier_that_nobody_offers_any_more_is_closed(
    open_desk: Open, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    desk, _ = busy_desk(open_desk, path)
    (loan,) = desk.steward.books.ledger.open_loans()
    again = restarted(open_desk, desk, path, 0.25)
    for name in ("n0", "n1", "n2"):
        again.steward.end_agent(name)
    ended = again.steward.books.ledger.rows.get(loan.entry)
    assert ended is not None
    assert "hdd is not offered any more" in ended.end_reason
    assert again.steward.books.ledger.open_loans() == []


def test_new_loans_never_take_a_number_that_was_given(open_desk: Open, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    given = {row.loan for row in desk.steward.books.ledger.rows if row.kind == "loan"}
    again = restarted(open_desk, desk, path, 60.0)
    for one in agents:
        one.desk, one.sequence = again, 0
        one.announce()
    work(again, agents, 60, 20)
    loans = [row.loan for row in again.steward.books.ledger.rows if row.kind == "loan"]
    assert len(set(loans)) == len(loans) > len(given)


def test_without_a_journal_quotas_are_taken_over_from_agents(open_desk: Open) -> None:
    desk = open_desk()
    one = FakeAgent(desk, "n0")
    one.enforced = {"a": {"hdd": 123 * MB}}
    assert one.announce().quotas == {"a": {"hdd": 123 * MB}}, "left alone until its job speaks"
    join(desk, "a", iteration=1000)
    assert next(d.kind for d in desk.steward.books.decisions.rows) == "reconciled"
    desk.steward.take_health("a", health(1000))


def test_what_was_adopted_of_a_job_that_never_speaks_is_let_go(open_desk: Open) -> None:
    desk = open_desk(job_silent_s=60.0)
    one = FakeAgent(desk, "n0")
    one.enforced = {"ghost": {"hdd": 123 * MB}}
    one.announce()
    for _ in range(70):
        one.report({})
        desk.advance(1.0)
    assert one.report({}).quotas == {}


def test_a_damaged_journal_is_moved_aside_and_an_empty_one_begins(
    open_desk: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.db"
    desk, agents = busy_desk(open_desk, path)
    desk.journal.close()
    body = bytearray(path.read_bytes())
    for begin in range(0, len(body), 512):
        body[begin : begin + 100] = b"\xa5" * min(100, len(body) - begin)
    path.write_bytes(body)
    with caplog.at_level(logging.WARNING):
        again = open_desk(path, desk.clock)
    assert "is moved to" in caplog.text
    assert [file.name for file in tmp_path.glob("*.damaged-*")]
    before = agents[0].enforced
    agents[0].desk = again
    assert agents[0].announce().quotas == before


def test_half_a_journal_is_no_reason_not_to_start(open_desk: Open, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    desk, _ = busy_desk(open_desk, path)
    desk.journal.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    open_desk(path, desk.clock)
