"""A congested tier's capacity follows what it delivers, and comes back."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigError
from headrace.policy.reservation.capacity import Capacity, CapacityLimits


def settled(delivered: float, *, rounds: int = 20) -> Capacity:
    """Return a tier of 100 B/s after rounds in which jobs were held up."""
    capacity = Capacity(100.0, CapacityLimits())
    for _ in range(rounds):
        capacity.observe(delivered, is_held_up=True, elapsed_s=1.0)
    return capacity


def test_it_settles_a_little_above_what_is_delivered() -> None:
    assert settled(40.0).effective == pytest.approx(50.0, rel=0.01)


def test_it_never_falls_below_its_least() -> None:
    assert settled(0.0).effective == pytest.approx(10.0, rel=0.01)


def test_it_is_probed_upward_to_the_nominal_and_no_further() -> None:
    capacity = settled(40.0)
    capacity.observe(40.0, is_held_up=False, elapsed_s=4.0)
    assert capacity.effective == pytest.approx(70.0, rel=0.01)
    capacity.observe(40.0, is_held_up=False, elapsed_s=100.0)
    assert capacity.effective == 100.0


def test_another_nominal_bandwidth_keeps_the_part_that_is_effective() -> None:
    capacity = settled(40.0)
    capacity.change(200.0)
    assert capacity.effective == pytest.approx(100.0, rel=0.01)


@pytest.mark.parametrize(
    "wrong", [{"headroom": 0.0}, {"fall": 2.0}, {"rise_per_s": 0.0}, {"least": 0.0}, {"unused": 1}]
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        CapacityLimits(**wrong)
