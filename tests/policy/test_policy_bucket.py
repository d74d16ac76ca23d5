"""The token bucket, at times that the tests make up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.bucket import TokenBucket

MB = 1e6

takes = st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 5_000_000)), min_size=1, max_size=60)
rates = st.one_of(st.just(0.0), st.floats(1e3, 8 * MB))
changes = st.lists(st.tuples(st.floats(0.0, 3.0), rates), min_size=1, max_size=20)


def test_an_item_larger_than_the_burst_is_taken_at_once_and_paid_for_afterwards() -> None:
    bucket = TokenBucket(rate=1 * MB, burst=0.1 * MB, now=0.0)
    assert bucket.take_nowait(500 * MB, now=0.0)
    assert not bucket.take_nowait(1, now=499.0)
    assert bucket.free_at(0.0) == pytest.approx(500.0)
    assert bucket.take_nowait(1, now=bucket.free_at(0.0))


def test_no_more_than_the_burst_is_saved_up() -> None:
    bucket = TokenBucket(rate=1 * MB, burst=3 * MB, now=0.0)
    bucket.is_free(now=1000.0)
    taken = 0
    while bucket.take_nowait(1 * MB, now=1000.0):
        taken += 1
    assert taken == 3 + 1  # the last one is owed


def test_a_change_of_the_rate_counts_at_once() -> None:
    bucket = TokenBucket(rate=1 * MB, burst=0, now=0.0)
    bucket.take_nowait(10 * MB, now=0.0)
    bucket.set_rate(10 * MB, burst=0, now=1.0)
    assert bucket.free_at(1.0) == pytest.approx(1.9)
    bucket.set_rate(0.0, burst=0, now=1.0)
    assert bucket.free_at(1.0) == math.inf


def test_turning_the_rate_up_and_down_saves_nothing_up() -> None:
    bucket = TokenBucket(rate=1 * MB, burst=1 * MB, now=0.0)
    for _ in range(100):
        bucket.set_rate(100 * MB, burst=100 * MB, now=0.0)
        bucket.set_rate(1 * MB, burst=1 * MB, now=0.0)
    assert bucket.take_nowait(2 * MB, now=0.0)
    assert bucket.free_at(0.0) == pytest.approx(2.0)


def test_what_was_read_beyond_what_was_foreseen_is_owed() -> None:
    bucket = TokenBucket(rate=1 * MB, burst=0, now=0.0)
    bucket.charge(3 * MB, now=0.0)
    bucket.charge(2 * MB, now=1.0)
    assert bucket.free_at(1.0) == pytest.approx(5.0)


def test_a_clock_that_reads_earlier_changes_nothing() -> None:
    bucket = TokenBucket(rate=1 * MB, burst=1 * MB, now=10.0)
    bucket.take_nowait(1 * MB, now=10.0)
    bucket.is_free(now=9.0)
    assert bucket.free_at(10.0) == pytest.approx(11.0)


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="rate"):
        TokenBucket(rate=rate, burst=1.0, now=0.0)


@given(takes=takes, rate=st.floats(1e3, 8 * MB), burst=st.floats(0.0, 8 * MB))
def test_no_window_sees_more_than_the_burst_its_time_and_one_item(
    takes: list[tuple[float, int]], rate: float, burst: float
) -> None:
    bucket = TokenBucket(rate=rate, burst=burst, now=0.0)
    now, taken = 0.0, []
    for pause_s, nbytes in takes:
        now += pause_s
        if bucket.take_nowait(nbytes, now):
            taken.append((now, nbytes))
    for first, (begin, _) in enumerate(taken):
        total = 0
        for end, nbytes in taken[first:]:
            total += nbytes
            assert total <= burst + rate * (end - begin) + nbytes + 2


@given(takes=takes, changes=changes, burst_s=st.floats(0.0, 2.0))
def test_whoever_waits_until_it_is_free_gets_the_rate_through_all_changes(
    takes: list[tuple[float, int]], changes: list[tuple[float, float]], burst_s: float
) -> None:
    bucket = TokenBucket(rate=1 * MB, burst=1 * MB, now=0.0)
    now, allowed, largest_burst, total = 0.0, 0.0, 1 * MB, 0
    for (pause_s, rate), (_, nbytes) in zip(changes, takes, strict=False):
        allowed += bucket.rate * pause_s
        now += pause_s
        largest_burst = max(largest_burst, rate * burst_s)
        bucket.set_rate(rate, rate * burst_s, now)
        at = bucket.free_at(now)
        if at == math.inf:
            continue
        allowed += bucket.rate * (at - now)
        now = at
        assert bucket.take_nowait(nbytes, now)
        total += nbytes
        assert total - nbytes <= allowed + largest_burst + 2
