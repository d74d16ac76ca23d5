"""Loans are measured in iterations of the job that borrows."""

from __future__ import annotations

import numpy as np

from headrace.policy.reservation.events import Action, Lend, Reclaim
from headrace.sim.borrowing import borrowing

ASKED = {"a": np.arange(0.0, 100.0, 2.0)}


def _lend(loan: int, at_s: float) -> tuple[float, Action]:
    lend = Lend(
        loan=loan, job="a", tier="hdd", bytes_per_s=1e6, iterations=3, expires_in_s=9.0,
        score=30.0, reason="tight",
    )  # fmt: skip
    return (at_s, lend)


def _reclaim(loan: int, at_s: float) -> tuple[float, Action]:
    return (at_s, Reclaim(loan=loan, job="a", tier="hdd", reason="over"))


def test_a_loan_is_as_long_as_the_iterations_that_began_meanwhile() -> None:
    found = borrowing([_lend(1, 10.5), _reclaim(1, 16.5)], ASKED)
    assert found["hdd"].loans == 1
    assert found["hdd"].mean_iterations == 3.0


def test_a_loan_renewed_at_once_is_one_loan() -> None:
    decided = [_lend(1, 10.5), _reclaim(1, 16.5), _lend(2, 16.5), _reclaim(2, 22.5)]
    found = borrowing(decided, ASKED)
    assert (found["hdd"].loans, found["hdd"].mean_iterations) == (1, 6.0)


def test_a_loan_after_a_pause_is_another_one() -> None:
    decided = [_lend(1, 10.5), _reclaim(1, 12.5), _lend(2, 40.5), _reclaim(2, 46.5)]
    found = borrowing(decided, ASKED)
    assert (found["hdd"].loans, found["hdd"].mean_iterations) == (2, 2.0)


def test_a_loan_that_is_still_open_is_not_counted() -> None:
    assert borrowing([_lend(1, 10.5)], ASKED) == {}
