"""Quotas come into force late, and no burst is gained by changing them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.sim.quotas import UNLIMITED, Quotas

READ = np.ones((1, 1))


def one(rate, *, delay_s=1.0, burst_s=0.5):
    return Quotas(np.array([[float(rate)]]), delay_s=delay_s, burst_s=burst_s)


def test_an_order_is_in_force_after_the_delay_and_not_before():
    quotas = one(UNLIMITED)
    quotas.order(0, 0, 10.0, now=5.0)
    quotas.advance(5.9)
    assert quotas.rates[0, 0] == UNLIMITED
    quotas.advance(6.0)
    assert quotas.rates[0, 0] == 10.0


def test_who_reads_at_its_rate_may_go_on_so():
    quotas = one(10.0)
    for _ in range(20):
        assert quotas.most(1.0, READ)[0] >= 10.0
        quotas.spend(1.0, np.array([[10.0]]))


@seed(9)
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 1.0), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_over_any_time_no_more_than_a_burst_and_the_rates_is_read(changes):
    quotas, burst_s = one(50.0, delay_s=0.0), 0.5
    read, allowed, highest = 0.0, 0.0, 50.0
    for number, (rate, wish, changes_now) in enumerate(changes):
        if changes_now:
            quotas.order(0, 0, rate, now=float(number))
            quotas.advance(float(number))
            highest = max(highest, rate)
        amount = wish * float(quotas.most(1.0, READ)[0])
        quotas.spend(1.0, np.array([[amount]]))
        read += amount
        allowed += float(quotas.rates[0, 0])
        assert read <= allowed + highest * burst_s + 1e-6


def test_a_job_that_misses_half_of_its_bytes_may_take_twice_its_quota_in_all():
    quotas = Quotas(np.array([[UNLIMITED, 10.0]]), delay_s=1.0, burst_s=0.0)
    assert quotas.most(1.0, np.array([[0.5, 0.5]]))[0] == pytest.approx(20.0)
