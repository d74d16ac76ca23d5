"""How often something recurs, learnt from when it happened."""

from __future__ import annotations

import random

import pytest

from headrace.policy.replication.rhythm import Rhythm


def test_nothing_is_known_before_it_happened_twice() -> None:
    rhythm = Rhythm()
    rhythm.happened(5.0)
    assert rhythm.period_s is None
    assert rhythm.next_after(6.0) is None


def test_a_period_that_is_told_needs_no_event() -> None:
    assert Rhythm(600.0).next_after(50.0) == 650.0


def test_a_restart_and_two_saves_at_once_move_nothing() -> None:
    """Seed 3: intervals of 600 s, 5 % apart; one gap of six hours, one save a second after."""
    draw, rhythm, at = random.Random(3), Rhythm(), 0.0
    for number in range(20):
        at += 600.0 * draw.uniform(0.95, 1.05)
        at += 6 * 3600.0 if number == 10 else 0.0
        rhythm.happened(at)
        rhythm.happened(at + 1.0 if number == 15 else at)
    assert rhythm.period_s == pytest.approx(600.0, rel=0.03)


def test_a_new_rhythm_is_learnt() -> None:
    rhythm = Rhythm()
    for number in range(20):
        rhythm.happened(100.0 * number)
    for number in range(1, 10):
        rhythm.happened(1900.0 + 300.0 * number)
    assert rhythm.period_s == 300.0


def test_a_clock_that_goes_back_teaches_nothing() -> None:
    rhythm = Rhythm()
    for at in (100.0, 200.0, 50.0, 300.0):
        rhythm.happened(at)
    assert rhythm.period_s == 100.0
    assert rhythm.next_after(300.0) == 400.0


def test_what_lies_before_the_last_has_a_moment_of_its_own() -> None:
    rhythm = Rhythm(100.0)
    rhythm.happened(1000.0)
    assert [rhythm.next_after(at) for at in (750.0, 850.0, 1000.0, 1250.0)] == [
        800.0,
        900.0,
        1100.0,
        1300.0,
    ]
