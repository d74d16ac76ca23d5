"""The CPU guard: quick to stop, quick to come back, calm in between. No clock, no sleep."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.guard import CpuReading, Guard, GuardDecision, GuardLimits

CORES = 4.0


def look(others: float, own: float = 0.0, cores: float = CORES) -> CpuReading:
    return CpuReading(capacity_cores=cores, others_cores=others * cores, own_cores=own * cores)


def watch(
    guard: Guard, others: Callable[[float], float], *, begin: float, end: float
) -> list[tuple[float, GuardDecision]]:
    """Look ten times a second at others' share as a function of time."""
    count = round((end - begin) * 10)
    times = [begin + number / 10 for number in range(1, count + 1)]
    return [(now, guard.observe(look(others(now)), now)) for now in times]


def idle_guard(workers: int = 4) -> Guard:
    guard = Guard(workers)
    guard.observe(look(0.05), 0.0)
    return guard


@pytest.mark.parametrize("burner", [1.0, 0.9])
def test_saturating_others_stop_transforms_within_a_second(burner: float) -> None:
    decisions = watch(idle_guard(), lambda _: burner, begin=0, end=3)
    stopped = next(now for now, decision in decisions if not decision.transform)
    assert stopped < 1.0
    assert all(not decision.transform for now, decision in decisions if now >= stopped)


@pytest.mark.parametrize("rest", [0.0, 0.3, 0.6])
def test_transforms_come_back_within_two_seconds_after_the_others_end(rest: float) -> None:
    guard = idle_guard()
    watch(guard, lambda _: 1.0, begin=0, end=5)
    decisions = watch(guard, lambda _: rest, begin=5, end=8)
    back = next(now for now, decision in decisions if decision.transform)
    assert back - 5 < 2.0
    assert all(decision.transform for now, decision in decisions if now >= back)


def test_between_the_thresholds_it_stays_as_it_was() -> None:
    running, stopped = idle_guard(), idle_guard()
    watch(stopped, lambda _: 1.0, begin=0, end=2)
    assert all(d.transform for _, d in watch(running, lambda _: 0.75, begin=2, end=6))
    assert not any(d.transform for _, d in watch(stopped, lambda _: 0.75, begin=2, end=6))


def test_a_short_burst_does_not_stop_transforms() -> None:
    decisions = watch(idle_guard(), lambda now: 1.0 if 1 < now <= 1.3 else 0.1, begin=0, end=3)
    assert all(decision.transform for _, decision in decisions)


def test_its_own_workers_never_stop_it() -> None:
    guard = Guard(4)
    for number in range(50):
        decision = guard.observe(look(0.1, own=0.9), number / 10)
    assert decision.transform
    assert decision.total == pytest.approx(1.0)


@pytest.mark.parametrize(("others", "workers"), [(0.0, 4), (0.3, 2), (0.5, 2), (0.75, 1)])
def test_workers_fill_up_what_others_leave_of_the_threshold(others: float, workers: int) -> None:
    decision = Guard(8).observe(look(others), 0.0)
    assert decision.workers == workers
    assert ("of 8 workers" in decision.reason) == (workers < 8)


def test_a_host_with_room_allows_all_workers_and_gives_no_reason() -> None:
    decision = Guard(8).observe(look(0.2, cores=64), 0.0)
    assert (decision.workers, decision.reason) == (8, "")


def share_a_quota(want: float, *, quota: float, seconds: float) -> list[GuardDecision]:
    """Let others who want ``want`` cores, and workers who want all, share a quota by turns.

    Each running thread gets an equal part of what the quota gives, on CPUs of its own, so
    niceness does not decide; what the others do not want is the workers'.
    """
    guard, workers, decisions = Guard(4), 1, []
    for number in range(round(seconds * 10)):
        others = min(want, quota if not workers else quota / (1 + workers))
        own = quota - others if workers else 0.0
        reading = CpuReading(
            capacity_cores=quota,
            others_cores=others,
            own_cores=own,
            held_back=others + own >= quota * 0.99,
        )
        decisions.append(guard.observe(reading, number / 10))
        workers = decisions[-1].workers
    return decisions


def test_under_a_quota_workers_leave_room_for_others_who_want_little() -> None:
    decisions = share_a_quota(0.1, quota=0.45, seconds=20)
    assert all(decision.transform for decision in decisions)
    totals = [decision.total for decision in decisions[20:]]
    assert 0.7 < sum(totals) / len(totals) < 0.9


def test_under_a_quota_others_who_want_all_of_it_get_it_although_workers_took_half() -> None:
    decisions = share_a_quota(1.0, quota=1.0, seconds=5)
    assert not any(decision.transform for decision in decisions[30:])


def test_a_stop_says_why_and_when_it_ends() -> None:
    decision = Guard(2).observe(look(0.95), 0.0)
    assert decision.workers == 0
    assert "others use 95% of 4 cores" in decision.reason
    assert "below 70%" in decision.reason


@settings(deadline=None, max_examples=60)
@given(
    shares=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40),
    gaps=st.lists(st.floats(-1, 10), min_size=40, max_size=40),
    workers=st.integers(1, 100),
)
def test_whatever_is_seen_the_answer_stays_within_bounds(
    shares: list[tuple[float, float]], gaps: list[float], workers: int
) -> None:
    guard, now = Guard(workers), 0.0
    for (others, own), gap in zip(shares, gaps, strict=False):
        now += gap
        decision = guard.observe(look(others, own), now)
        assert 0 <= decision.others <= 1
        assert decision.others <= decision.total <= 2
        assert (decision.workers >= 1) == decision.transform
        assert decision.workers <= workers


@pytest.mark.parametrize(
    "wrong",
    [{"stop_share": 1.5}, {"resume_share": 0.9}, {"resume_share": 0.0}, {"smoothing_s": -1}],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"guard\."):
        GuardLimits(**wrong)
    with pytest.raises(ConfigError, match="workers"):
        Guard(0)
