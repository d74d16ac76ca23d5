"""Rivals behind the arbiter's interface: never over capacity, and true to their rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.reservation.events import (
    Action,
    Diagnosed,
    HealthReported,
    Indicators,
    JobJoined,
    JobLeft,
    Lend,
    Reclaim,
    SetQuota,
    SetReordering,
    TierChanged,
)
from headrace.sim.policies import Policy, Truth
from headrace.sim.rivals.aimd import Aimd
from headrace.sim.rivals.loans import LOAN_ITERATIONS, POOL_SHARE
from headrace.sim.rivals.oracle import Oracle
from headrace.sim.rivals.pid import CLAMP, DEAD_BAND, GAINS, TARGET, Pid
from headrace.sim.rivals.published import Published
from headrace.sim.rivals.static import StaticQuotas
from headrace.sim.rivals.watched import Watched

JOBS = ("a", "b", "c")
NEEDS = {"a": {"ssd": 300.0, "hdd": 10.0}, "b": {"ssd": 100.0, "hdd": 30.0}, "c": {"hdd": 10.0}}
CAPACITY = {"ssd": 1000.0, "hdd": 100.0}


def _indicators(*, depth: float, hdd: float = 0.5, need: float = 100.0) -> Indicators:
    return Indicators(
        iteration=20,
        step_time_s=1.0,
        wait_s=0.0 if depth else 1.0,
        queue_depth=depth,
        queue_capacity=4.0,
        io_latency_s=0.01,
        io_latency_cv=0.5,
        next_bytes=need,
        split={"ssd": 1.0 - hdd, "hdd": hdd},
        read_bytes_per_s=need,
    )


def _report(job: str, depth: float, **more: float) -> HealthReported:
    return HealthReported(job=job, host="h", indicators=_indicators(depth=depth, **more))


def _begin(policy: Policy) -> list[Action]:
    tiers = [
        TierChanged(tier="ssd", media="ssd", bytes_per_s=CAPACITY["ssd"]),
        TierChanged(tier="hdd", media="hdd", bytes_per_s=CAPACITY["hdd"]),
    ]
    events = [*tiers, *(JobJoined(job=job) for job in JOBS)]
    return [action for event in events for action in policy.handle(event, 0.0)]


class Ledger:
    """Applies quotas one after the other, and refuses more than there is at any moment."""

    def __init__(self) -> None:
        self.quotas: dict[tuple[str, str], float] = {}

    def apply(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, SetQuota):
                self.quotas[action.job, action.tier] = action.bytes_per_s
                given = sum(q for (_, tier), q in self.quotas.items() if tier == action.tier)
                assert given <= CAPACITY[action.tier] * (1 + 1e-9)


def test_static_quotas_hand_out_all_in_proportion_to_needs() -> None:
    ledger, policy = Ledger(), StaticQuotas(NEEDS)
    ledger.apply(_begin(policy))
    assert ledger.quotas["a", "ssd"] == pytest.approx(750.0)
    assert ledger.quotas["b", "hdd"] == pytest.approx(60.0)
    assert sum(q for (_, tier), q in ledger.quotas.items() if tier == "hdd") == pytest.approx(100)
    assert policy.handle(_report("a", 0.0), 1.0) == []


@pytest.mark.parametrize("make", [lambda: StaticQuotas(NEEDS), Aimd, lambda: Published(NEEDS)])
@given(
    reports=st.lists(
        st.tuples(st.sampled_from(JOBS), st.floats(0, 4), st.floats(0, 1), st.floats(1, 1e4)),
        max_size=60,
    )
)
def test_no_rival_ever_gives_more_than_there_is(
    make: type[Policy], reports: list[tuple[str, float, float, float]]
) -> None:
    policy, ledger = make(), Ledger()
    ledger.apply(_begin(policy))
    for now, (job, depth, hdd, need) in enumerate(reports, start=1):
        ledger.apply(policy.handle(_report(job, depth, hdd=hdd, need=need), now / 4))


def test_aimd_raises_who_is_in_need_until_the_tier_is_out_and_then_cuts_all() -> None:
    policy, ledger = Aimd(), Ledger()
    ledger.apply(_begin(policy))
    mine, others = [], []
    for now in range(1, 200):
        ledger.apply(policy.handle(_report("a", 0.0), float(now)))
        mine.append(ledger.quotas["a", "hdd"])
        others.append(ledger.quotas["b", "hdd"])
    assert mine[0] < mine[1]
    assert others[0] == others[1]
    assert others[-1] < others[0]
    assert any(after < before for before, after in pairwise(mine))
    assert policy.handle(_report("a", 4.0), 200.0) == []


def test_no_cut_of_aimd_leaves_a_job_with_nothing() -> None:
    policy, ledger = Aimd(), Ledger()
    ledger.apply(_begin(policy))
    for now in range(1, 2000):
        ledger.apply(policy.handle(_report("a", 0.0), float(now)))
    assert ledger.quotas["b", "hdd"] == pytest.approx(0.1 * CAPACITY["hdd"] / len(JOBS))


@given(score=st.floats(0, 100))
def test_the_plain_regulator_keeps_to_dead_band_and_clamp(score: float) -> None:
    for gains in GAINS.values():
        pid = Pid(gains)
        changes = [pid.change(score) for _ in range(200)]
        assert all(abs(change) <= CLAMP for change in changes)
        if abs(TARGET - score) < DEAD_BAND:
            assert set(changes) == {0.0}
        else:
            assert all(change * (TARGET - score) > 0 for change in changes)


def test_as_published_a_tight_job_borrows_for_three_iterations() -> None:
    policy = Published(NEEDS)
    _begin(policy)
    actions = [
        (iteration, action)
        for iteration in range(12)
        for action in policy.handle(_report("b", 0.0, need=200.0), float(iteration))
    ]
    lent = [(i, a) for i, a in actions if isinstance(a, Lend) and a.tier == "hdd"]
    back = [(i, a) for i, a in actions if isinstance(a, Reclaim) and a.tier == "hdd"]
    assert lent[0][1].bytes_per_s == pytest.approx(POOL_SHARE * CAPACITY["hdd"], rel=0.35)
    assert back[0][0] - lent[0][0] == LOAN_ITERATIONS - 1
    assert len(lent) > 1


def test_as_published_a_loan_ends_early_when_its_job_is_well_again() -> None:
    policy = Published(NEEDS)
    _begin(policy)
    for now in range(3):
        policy.handle(_report("b", 0.0, need=200.0), float(now))
    actions = [a for now in range(3, 8) for a in policy.handle(_report("b", 4.0), float(now))]
    assert any(isinstance(action, Reclaim) for action in actions)


def test_as_published_the_lowest_score_is_served_first_at_one_instant() -> None:
    policy = Published(NEEDS)
    _begin(policy)
    policy.handle(_report("a", 1.0, need=1000.0), 1.0)
    policy.handle(_report("b", 0.0, need=1000.0), 1.0)
    lent = [a for a in policy.handle(_report("c", 4.0), 2.0) if isinstance(a, Lend)]
    assert [a.job for a in lent if a.tier == "hdd"] == ["b"]


def test_as_published_a_long_crisis_on_disks_is_answered_by_reordering() -> None:
    policy = Published(NEEDS)
    _begin(policy)
    actions = [a for now in range(12) for a in policy.handle(_report("b", 0.0), float(now))]
    assert [a.enabled for a in actions if isinstance(a, SetReordering)] == [True]


def test_a_job_that_leaves_gives_its_loans_back() -> None:
    policy = Published(NEEDS)
    _begin(policy)
    for now in range(3):
        policy.handle(_report("b", 0.0, need=200.0), float(now))
    actions = policy.handle(JobLeft(job="b"), 3.0)
    assert {a.tier for a in actions if isinstance(a, Reclaim)} == {"hdd"}
    assert policy.handle(_report("b", 0.0), 4.0) == []


TRUTH = Truth(
    now=10.0,
    quantum_s=0.5,
    missing_bytes=np.array([400.0, 400.0, 0.0]),
    short_bytes=np.array([100.0, 100.0, 0.0]),
    asked_at_s=np.array([10.0, 12.0, 12.0]),
    batch_bytes=np.array([100.0, 100.0, 100.0]),
    step_time_s=np.array([2.0, 2.0, 2.0]),
    read=np.array([[1.0], [1.0], [1.0]]),
    usage=np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]),
    capacity=np.array([150.0, 1.0]),
    tiers=("hdd",),
)


def test_the_oracle_serves_first_who_is_asked_soonest() -> None:
    allotted = Oracle().allot(TRUTH)
    assert allotted[0] == pytest.approx(100.0)
    assert allotted[1] == pytest.approx(50.0)
    assert allotted[2] == 0.0


def test_the_oracle_gives_away_all_that_somebody_can_use() -> None:
    plenty = replace(TRUTH, capacity=np.array([1e6, 1.0]))
    np.testing.assert_allclose(Oracle().allot(plenty), TRUTH.missing_bytes / TRUTH.quantum_s)


class _Scripted:
    """Answers every event with the same actions."""

    def __init__(self, *actions: Action) -> None:
        self.actions, self.events = actions, 0

    def handle(self, event: object, now: float) -> list[Action]:
        self.events += 1
        return list(self.actions)


def test_who_only_watches_decides_nothing() -> None:
    quota = SetQuota(job="a", tier="hdd", bytes_per_s=1.0, reason="")
    seen = Diagnosed(job="a", score=10.0, level="critical", mode="thrash", reason="")
    governing = _Scripted(quota)
    watching = _Scripted(seen, replace(quota, bytes_per_s=9.0))
    watched = Watched(governing, watching)
    assert watched.handle(JobLeft(job="a"), 0.0) == [quota, seen]
    assert governing.events == watching.events == 1
