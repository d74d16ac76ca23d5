"""Checkpoint bursts: what they need, by when, and when they are given up."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigError
from headrace.policy.reservation.bursts import Burst, BurstLimits, Bursts
from headrace.policy.reservation.events import BurstAnnounced

LIMITS = BurstLimits()


def announce(name: str, *, urgent: bool = False, deadline_s: float = 100.0) -> BurstAnnounced:
    """Return a burst of 1000 B."""
    return BurstAnnounced(
        job="a", burst=name, tier="ssd", nbytes=1000.0, deadline_s=deadline_s, urgent=urgent
    )


def only(bursts: Bursts) -> Burst:
    """Return the single burst."""
    (burst,) = bursts.ordered()
    return burst


def test_a_burst_needs_what_is_left_over_the_time_that_is_left() -> None:
    bursts = Bursts(LIMITS)
    bursts.announce(announce("s"), 0.0)
    assert only(bursts).needs(0.0, LIMITS) == pytest.approx(11.0)
    only(bursts).bytes_per_s = 15.0
    bursts.advance(50.0)
    assert only(bursts).needs(50.0, LIMITS) == pytest.approx(250.0 * 1.1 / 50)


def test_announcing_it_again_renews_what_is_left_and_its_deadline() -> None:
    bursts = Bursts(LIMITS)
    bursts.announce(announce("s"), 0.0)
    only(bursts).bytes_per_s = 15.0
    bursts.announce(announce("s", deadline_s=10.0), 50.0)
    assert only(bursts).left == 1000.0
    assert only(bursts).deadline_at == 60.0
    assert only(bursts).bytes_per_s == 15.0


def test_urgent_ones_come_first_then_those_with_the_next_deadline() -> None:
    bursts = Bursts(LIMITS)
    for event in (announce("late"), announce("soon", deadline_s=5), announce("u", urgent=True)):
        bursts.announce(event, 0.0)
    assert [burst.name for burst in bursts.ordered()] == ["u", "soon", "late"]


def test_what_nobody_renews_is_dropped_after_its_deadline() -> None:
    bursts = Bursts(LIMITS)
    bursts.announce(announce("s"), 0.0)
    assert bursts.advance(100.0 + LIMITS.grace_s) == []
    (dropped,) = bursts.advance(100.1 + LIMITS.grace_s)
    assert dropped.name == "s" and not bursts


@pytest.mark.parametrize(
    "wrong", [{"margin": -1.0}, {"share": 0.0}, {"shortest_s": 0.0}, {"grace_s": 0.0}]
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        BurstLimits(**wrong)
