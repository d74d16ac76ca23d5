"""Who gets which CPUs, and how long a step is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.demo.premise import (
    LARGEST_SIDE,
    UTILISATION,
    Cpus,
    Premise,
    just_in_time_step,
    premise_line,
    share_cpus,
    steps_in,
)


@given(st.sets(st.integers(0, 500), min_size=2, max_size=300))
def test_both_sides_get_equally_many_cpus_and_none_in_common(usable: set[int]) -> None:
    cpus = share_cpus(list(usable))
    assert len(cpus.trainer) == len(cpus.storage) <= LARGEST_SIDE
    assert not cpus.shared
    assert set(cpus.trainer + cpus.storage) <= usable


def test_a_single_cpu_is_shared_and_the_premise_says_so() -> None:
    cpus = share_cpus([3])
    assert cpus == Cpus(trainer=(3,), storage=(3,))
    premise = Premise(cpus=cpus, host_work=0.5, storage_idle=1.0, step_s=0.1, link="loopback")
    assert "share CPU 3" in premise_line(premise)


def test_storage_is_as_busy_as_stated_when_it_prepares_one_batch_a_step() -> None:
    assert 0.2 / just_in_time_step(0.2) == pytest.approx(UTILISATION)


def test_steps_of_both_loaders_fit_the_budget() -> None:
    # 0.8 s a local step at a quarter of the CPU, 0.3 s a headrace step
    assert steps_in(33.1, step_s=0.3, prepare_batch_s=0.2, host_work=0.75) == 30


def test_there_are_never_too_few_steps_to_compare() -> None:
    assert steps_in(0.1, step_s=1.0, prepare_batch_s=1.0, host_work=0.5) == 8


def test_the_premise_line_names_what_is_left_to_loading_and_what_is_emulated() -> None:
    premise = Premise(
        cpus=Cpus(trainer=(0,), storage=(1, 2)),
        host_work=0.75,
        storage_idle=0.97,
        step_s=0.25,
        link="HTTP over loopback",
    )
    line = premise_line(premise)
    for part in ("CPU 0", "to 1, 2", "25 % of", "97 % idle", "250 ms, emulated", "loopback"):
        assert part in line
