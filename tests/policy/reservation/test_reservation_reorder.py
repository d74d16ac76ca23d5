"""Reordering: only after a long need, only on hard disks, and not in turns."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.reservation.reorder import ReorderDecision, Reordering, ReorderLimits


def observe(
    reordering: Reordering, scores: list[float], hdd_share: float = 1.0
) -> list[ReorderDecision]:
    return [reordering.observe(score, hdd_share=hdd_share) for score in scores]


def test_it_starts_with_the_fourth_iteration_below_30_and_says_why() -> None:
    decisions = observe(Reordering(), [29, 29, 29, 29, 29])
    assert [decision.enabled for decision in decisions] == [False, False, False, True, True]
    assert [decision.changed for decision in decisions] == [False, False, False, True, False]
    assert decisions[3].reason == "score below 30 for 4 iterations"


def test_it_ends_with_the_fourth_iteration_above_60() -> None:
    reordering = Reordering()
    observe(reordering, [10] * 4)
    decisions = observe(reordering, [50, 61, 61, 61, 61])
    assert [decision.enabled for decision in decisions] == [True, True, True, True, False]
    assert decisions[-1].reason == "score above 60 for 4 iterations"


def test_one_better_iteration_starts_the_count_anew() -> None:
    assert not any(d.enabled for d in observe(Reordering(), [29, 29, 29, 30] * 20))


def test_a_job_that_hardly_reads_from_disks_is_left_alone() -> None:
    assert not any(d.enabled for d in observe(Reordering(), [0] * 50, hdd_share=0.01))


def test_it_ends_when_the_job_no_longer_reads_from_disks() -> None:
    reordering = Reordering()
    observe(reordering, [10] * 4)
    decisions = observe(reordering, [10] * 4, hdd_share=0.0)
    assert not decisions[-1].enabled
    assert "disks" in decisions[-1].reason


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), max_size=200))
def test_it_changes_at_most_once_in_four_iterations(trace: list[tuple[float, float]]) -> None:
    reordering = Reordering()
    decisions = [reordering.observe(score, hdd_share=share) for score, share in trace]
    at = [number for number, decision in enumerate(decisions) if decision.changed]
    assert all(later - earlier >= 4 for earlier, later in pairwise(at))
    assert all(bool(decision.reason) == decision.changed for decision in decisions)


def test_limits_that_would_make_it_swing_are_refused() -> None:
    with pytest.raises(ConfigError, match="in turns"):
        ReorderLimits(start_below=60, stop_above=60)
    with pytest.raises(ConfigError, match="start_after"):
        ReorderLimits(start_after=-1)
    with pytest.raises(ConfigError, match="least_hdd"):
        ReorderLimits(least_hdd=2)
