"""What a job will need, from the batches that its schedule says come next."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import JobJoined
from headrace.policy.reservation.foresight import (
    EVERYTHING,
    Foresight,
    ForesightLimits,
    meeting_deadlines,
)
from headrace.policy.reservation.hosts import Reading

SIZES = st.lists(st.floats(0.0, 1e9, allow_subnormal=False), min_size=1, max_size=10)


def reading(iteration: int = 0, **looks: object) -> Reading:
    """Return a job with steps of a second, batches of 100 B and a queue of eight."""
    figures: dict[str, object] = {
        "step_time_s": 1.0,
        "wait_s": 0.0,
        "queue_depth": 8.0,
        "queue_capacity": 8.0,
        "upcoming": (100.0,) * 8,
        "split": {"ssd": 0.8, "hdd": 0.2},
        "hit_rate": 0.8,
        "throttled_share": 0.0,
        "read_bytes_per_s": 100.0,
    }
    return Reading(iteration=iteration, **(figures | looks))  # type: ignore[arg-type]


def foresight(*readings: Reading, joined: JobJoined | None = None) -> Foresight:
    """Return the model of a job that ended these iterations."""
    model = Foresight(ForesightLimits(), joined or JobJoined(job="a"), 0.0)
    for one in readings:
        model.observe(one)
    return model


def test_a_shallow_queue_needs_its_mean_and_a_deep_one_less() -> None:
    assert foresight(reading(queue_depth=0.0)).outlook(0.0).must == pytest.approx(100.0)
    assert foresight(reading(queue_depth=9.0)).outlook(0.0).must == pytest.approx(50.0)


def test_a_large_batch_ahead_is_needed_in_time_not_at_once() -> None:
    ahead = (100.0, 100.0, 100.0, 1000.0, *(100.0,) * 4)
    outlook = foresight(reading(queue_depth=1.0, upcoming=ahead)).outlook(0.0)
    assert outlook.must == pytest.approx(1300.0 / 4)


def test_a_step_time_that_is_known_stands_until_another_one_is_measured() -> None:
    begun = JobJoined(job="a", step_time_s=2.0, upcoming_bytes=(100.0,) * 8)
    model = foresight(reading(step_time_s=0.0, queue_depth=0.0), joined=begun)
    assert model.outlook(0.0).must == pytest.approx(50.0)
    model.observe(reading(1, step_time_s=1.0, queue_depth=0.0))
    assert model.outlook(0.0).must == pytest.approx(100.0)


def test_an_empty_queue_wants_to_be_refilled() -> None:
    full, empty = foresight(reading()), foresight(reading(queue_depth=0.0))
    assert full.outlook(0.0).want == pytest.approx(110.0)
    assert empty.outlook(0.0).want > 200.0


def test_needs_follow_the_split() -> None:
    outlook = foresight(reading(queue_depth=0.0)).outlook(0.0)
    assert outlook.musts("hdd") == pytest.approx(20.0)
    assert outlook.musts("tape") == 0.0


def test_a_share_that_grows_is_expected_to_grow_on() -> None:
    falling = [reading(k, split={"ssd": 0.8 - 0.1 * k, "hdd": 0.2 + 0.1 * k}) for k in range(5)]
    model = foresight(*falling)
    assert model.outlook(0.0).split["hdd"] > model.split["hdd"]
    assert model.outlook(0.0).split["ssd"] == model.split["ssd"]


def test_of_a_link_that_decoded_bytes_cross_more_is_needed_than_is_read() -> None:
    outlook = foresight(reading(queue_depth=0.0, split={"hdd": 1.0, "wan": 6.0})).outlook(0.0)
    assert outlook.musts("wan") == pytest.approx(600.0)
    assert outlook.musts("hdd") == pytest.approx(100.0)


def test_while_nothing_is_known_everything_is_wanted_of_every_tier() -> None:
    outlook = foresight().outlook(0.0)
    assert outlook.wants("ssd") == outlook.wants("hdd") == EVERYTHING
    assert outlook.musts("ssd") == 0.0


def test_a_job_that_will_begin_wants_its_queue_filled_until_then() -> None:
    joined = JobJoined(
        job="a", step_time_s=1.0, begins_in_s=20.0, upcoming_bytes=(100.0,) * 8, split={"ssd": 1.0}
    )
    model = foresight(joined=joined)
    assert model.outlook(0.0).want == pytest.approx(800.0 / 20)
    assert model.outlook(12.0).want == pytest.approx(800.0 / 8)


@given(SIZES, st.floats(0.1, 100.0), st.floats(0.1, 100.0))
def test_the_least_rate_meets_all_deadlines_and_a_lower_one_misses_one(
    sizes: list[float], first_s: float, step_s: float
) -> None:
    rate = meeting_deadlines(sizes, first_s=first_s, step_s=step_s)
    due_s = [first_s + place * step_s for place in range(len(sizes))]
    needed = list(accumulate(sizes))
    assert all(n <= rate * due * (1 + 1e-9) for n, due in zip(needed, due_s, strict=True))
    if rate > 1.0:
        assert any(n > 0.99 * rate * due for n, due in zip(needed, due_s, strict=True))


@pytest.mark.parametrize(
    "wrong", [{"batches": 0}, {"size_gain": 0.0}, {"margin": -1.0}, {"refill_steps": 0.0}]
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ForesightLimits(**wrong)  # type: ignore[arg-type]


def test_a_job_that_names_other_tiers_each_time_takes_no_memory() -> None:
    model = foresight(*(reading(split={f"tier-{number}": 1.0}) for number in range(1000)))
    assert len(model.split) < 100
    assert model.split["tier-999"] > 0.2
