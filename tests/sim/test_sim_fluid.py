"""Shares of several resources against a slow reference, and what any fair share must hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.sim.fluid import OWN_CAP, share

AMOUNTS = st.floats(0.0, 100.0).map(lambda value: round(value, 3))


@st.composite
def problems(draw: st.DrawFn) -> dict[str, np.ndarray]:
    flows, resources = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    row = st.lists(
        st.sampled_from([0.0, 0.0, 0.3, 1.0, 2.5]), min_size=resources, max_size=resources
    )
    return {
        "caps": np.array(draw(st.lists(AMOUNTS, min_size=flows, max_size=flows))),
        "usage": np.array(draw(st.lists(row, min_size=flows, max_size=flows))),
        "capacity": np.array(draw(st.lists(AMOUNTS, min_size=resources, max_size=resources))),
        "weights": np.array(
            draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=flows, max_size=flows))
        ),
    }


def by_small_rises(caps, usage, capacity, weights):
    """Raise all flows together, event by event, one flow and one resource at a time."""
    rates, rising = np.zeros(len(caps)), [cap > 0 for cap in caps]
    left = capacity.astype(float).copy()
    for resource in range(len(capacity)):
        if left[resource] <= 0:
            for flow in range(len(caps)):
                rising[flow] = rising[flow] and usage[flow, resource] == 0
    while any(rising):
        speeds = np.where(rising, weights, 0.0)
        to_cap = [(caps[f] - rates[f]) / weights[f] for f in range(len(caps)) if rising[f]]
        drain = speeds @ usage
        to_full = [left[r] / drain[r] for r in range(len(left)) if drain[r] > 0]
        step = min([*to_cap, *to_full])
        rates += speeds * step
        left -= drain * step
        for flow in range(len(caps)):
            full = any(usage[flow, r] > 0 and left[r] < 1e-9 for r in range(len(left)))
            if full or rates[flow] >= caps[flow] - 1e-9:
                rising[flow] = False
    return rates


@seed(5)
@settings(max_examples=200, deadline=None)
@given(problems())
def test_shares_equal_those_of_raising_all_flows_step_by_step(problem):
    shares = share(**problem)
    np.testing.assert_allclose(shares.rates, by_small_rises(**problem), atol=1e-6)


@seed(5)
@settings(max_examples=200, deadline=None)
@given(problems())
def test_no_resource_is_overdrawn_and_who_is_held_back_meets_a_full_one(problem):
    rates, bottleneck = share(**problem)
    used = rates @ problem["usage"]
    assert (used <= problem["capacity"] + 1e-6).all()
    assert (rates <= problem["caps"] + 1e-9).all()
    for flow, resource in enumerate(bottleneck.tolist()):
        if resource == OWN_CAP:
            assert rates[flow] >= problem["caps"][flow] - 1e-9
        else:
            assert problem["usage"][flow, resource] > 0
            assert used[resource] >= problem["capacity"][resource] - 1e-6


def test_weights_set_the_relation_where_flows_compete():
    rates, _ = share(
        np.array([10.0, 10.0]),
        usage=np.ones((2, 1)),
        capacity=np.array([8.0]),
        weights=np.array([3.0, 1.0]),
    )
    np.testing.assert_allclose(rates, [6.0, 2.0])
