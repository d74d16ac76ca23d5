"""The ledger: what was lent, refused and decided."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from reporters_for_tests import MB, Desk, FakeAgent, health, join, starving

from headrace.controller.ledger import Ledger, Query
from headrace.policy.reservation.events import Lend, Reclaim, Refuse


def lend(loan: int, job: str = "a", tier: str = "hdd") -> Lend:
    return Lend(
        loan=loan,
        job=job,
        tier=tier,
        bytes_per_s=10 * MB,
        iterations=3,
        expires_in_s=6.0,
        score=12.0,
        reason="its queue is empty",
    )


def ledger_of(most: int = 100) -> tuple[Ledger, dict[int, msgspec.Struct | None]]:
    written: dict[int, msgspec.Struct | None] = {}
    return Ledger(most, written.__setitem__), written


def test_a_loan_is_one_row_from_its_begin_to_its_end() -> None:
    ledger, written = ledger_of()
    ledger.lend(lend(7), title="", iteration=40, at=100.0)
    (row,) = ledger.open_loans("a")
    assert (row.began_at, row.expires_at, row.iteration) == (100.0, 106.0, 40)
    ledger.reclaim(Reclaim(loan=7, job="a", tier="hdd", reason="its timer"), at=103.0)
    assert ledger.open_loans() == []
    (row,) = ledger.rows
    assert (row.ended_at, row.end_reason, row.is_open) == (103.0, "its timer", False)
    assert written[row.entry] == row


def test_a_refusal_that_repeats_is_counted_in_its_row() -> None:
    ledger, _ = ledger_of()
    for at in (1.0, 2.0, 3.0):
        ledger.refuse(Refuse(job="a", tier="hdd", score=5.0, reason="all is lent"), title="", at=at)
    ledger.refuse(
        Refuse(job="a", tier="hdd", score=5.0, reason="it is not short"), title="", at=4.0
    )
    first, second = ledger.rows
    assert (first.times, first.began_at, first.ended_at) == (3, 1.0, 3.0)
    assert (second.times, second.reason) == (1, "it is not short")


def test_the_oldest_rows_go_and_the_journal_is_told() -> None:
    ledger, written = ledger_of(most=3)
    for loan in range(5):
        ledger.lend(lend(loan), title="", iteration=0, at=float(loan))
        ledger.reclaim(Reclaim(loan=loan, job="a", tier="hdd", reason="done"), at=float(loan))
    assert [row.loan for row in ledger.rows] == [2, 3, 4]
    assert [number for number, row in written.items() if row is None] == [1, 2]


def test_an_open_loan_stays_however_much_happens_meanwhile() -> None:
    ledger, written = ledger_of(most=3)
    ledger.lend(lend(0), title="", iteration=0, at=0.0)
    for number in range(1, 6):
        ledger.refuse(
            Refuse(job="b", tier="hdd", score=5.0, reason=f"{number}"), title="", at=float(number)
        )
    assert [row.loan for row in ledger.open_loans()] == [0]
    assert [row.reason for row in ledger.rows][1:] == ["4", "5"]
    ledger.reclaim(Reclaim(loan=0, job="a", tier="hdd", reason="done"), at=9.0)
    assert ledger.open_loans() == []
    ledger.refuse(Refuse(job="b", tier="hdd", score=5.0, reason="6"), title="", at=10.0)
    assert [row.reason for row in ledger.rows] == ["4", "5", "6"]
    assert written[1] is None


@pytest.mark.parametrize(
    ("query", "loans"),
    [
        ({}, [5, 4, 3, 2, 1, 0]),
        ({"job": "a"}, [4, 2, 0]),
        ({"tier": "ssd"}, []),
        ({"open_only": True}, [5, 4, 3, 2, 1]),
        ({"since": 3.0}, [5, 4, 3, 0]),
        ({"limit": 2}, [5, 4]),
        ({"limit": 2, "before": 5}, [3, 2]),
        ({"kind": "refusal"}, []),
    ],
)
def test_rows_are_found_newest_first(query: dict[str, Any], loans: list[int]) -> None:
    ledger, _ = ledger_of()
    for loan in range(6):
        ledger.lend(lend(loan, "ab"[loan % 2]), title="", iteration=0, at=float(loan))
    ledger.reclaim(Reclaim(loan=0, job="a", tier="hdd", reason="done"), at=9.0)
    rows, _ = ledger.rows.find(Query(**query))
    assert [row.loan for row in rows] == loans


def test_pages_follow_one_another_until_there_are_no_more() -> None:
    ledger, _ = ledger_of()
    for loan in range(10):
        ledger.lend(lend(loan), title="", iteration=0, at=float(loan))
    seen: list[int | None] = []
    before: int | None = None
    while True:
        rows, before = ledger.rows.find(Query(limit=4, before=before))
        seen += [row.loan for row in rows]
        if before is None:
            break
    assert seen == list(range(9, -1, -1))


def test_a_job_that_always_says_it_starves_gets_its_turn_and_no_more_and_the_ledger_tells(
    desk: Desk,
) -> None:
    agents = [FakeAgent(desk, f"n{number}") for number in range(2)]
    for one in agents:
        one.announce()
    for job in ("liar", "b", "c"):
        join(desk, job)
    pool = 0.15 * 800 * MB
    for iteration in range(90):
        for job in ("b", "liar", "c"):
            desk.steward.take_health(job, starving(iteration, next_bytes=600_000_000))
        for one in agents:
            one.report({"liar": 100 * MB, "b": 100 * MB, "c": 100 * MB})
        desk.advance(1.0)
        loans = desk.steward.books.ledger.open_loans()
        assert sum(loan.bytes_per_s for loan in loans) <= pool * (1 + 1e-9)
    held = {"liar": 0.0, "b": 0.0, "c": 0.0}
    for row in desk.steward.books.ledger.rows:
        if row.kind == "loan":
            end = row.ended_at if row.ended_at is not None else desk.steward.wall()
            held[row.job] += row.bytes_per_s * (end - row.began_at)
            assert row.reason
    assert held["liar"] <= 1.2 * max(held["b"], held["c"])


def test_a_healthy_job_owes_nothing(desk: Desk) -> None:
    FakeAgent(desk, "n0").announce()
    join(desk, "a")
    for iteration in range(20):
        desk.steward.take_health("a", health(iteration))
        desk.advance(1.0)
    assert list(desk.steward.books.ledger.rows) == []
