"""How long a sample is waited for before it is made here."""

from __future__ import annotations

import pytest

from headrace.client.pace import Patience, Reading

PATIENCE = Patience(least_s=0.5, grace_s=0.25)
LOOP = Reading(consumed_step=0, step_time_s=1.0)


def test_light_samples_are_waited_for_half_of_the_time_left() -> None:
    assert PATIENCE.wait_s(LOOP, 9) == 4.0
    assert PATIENCE.hedge_s(LOOP, 9, cost_s=0.01) == 4.25


@pytest.mark.parametrize(("cost_s", "expected"), [(3.9, 4.25), (5.0, 3.25), (60.0, 0.75)])
def test_heavy_ones_are_begun_early_enough_to_be_in_time(cost_s: float, expected: float) -> None:
    assert PATIENCE.hedge_s(LOOP, 9, cost_s=cost_s) == expected


def test_before_the_loop_was_measured_nobody_knows_what_is_in_time() -> None:
    unmeasured = Reading(consumed_step=0, step_time_s=0.0)
    assert PATIENCE.hedge_s(unmeasured, 3, cost_s=60.0) == PATIENCE.wait_s(unmeasured, 3) + 0.25
