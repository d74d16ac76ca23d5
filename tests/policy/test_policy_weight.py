"""An agent's weight: proportional to what it can do, and steady."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.guard import CpuReading, Guard
from headrace.policy.weight import LEVELS, Weighing, WeightLimits

CORES = 8.0


class Host:
    """A host whose others' CPU use can be set; looked at ten times a second."""

    def __init__(self, workers: int = 8, cores: float = CORES) -> None:
        self.weighing = Weighing(workers)
        self._guard = Guard(max(workers, 1))
        self._cores = cores
        self._now = 0.0

    def spend(self, seconds: float, others: float) -> list[int]:
        """Return the weights while others use a share of the CPU."""
        return [self._look(others) for _ in range(round(10 * seconds))]

    def _look(self, others: float) -> int:
        self._now += 0.1
        reading = CpuReading(
            capacity_cores=self._cores, others_cores=others * self._cores, own_cores=0.0
        )
        return self.weighing.observe(reading, self._guard.observe(reading, self._now), self._now)


def test_an_idle_host_has_its_full_weight_from_the_first_look_on() -> None:
    assert len(set(Host().spend(60, others=0.0))) == 1


def test_a_host_with_twice_the_cores_has_twice_the_weight() -> None:
    (small,), (large,) = Host(4, 5.0).spend(0.1, 0.0), Host(8, 10.0).spend(0.1, 0.0)
    assert large == 2 * small


def test_a_host_whose_workers_get_half_the_cpu_has_half_the_weight() -> None:
    host = Host()
    full = host.spend(1, others=0.0)[-1]
    assert host.spend(60, others=0.4)[-1] == full // 2


def test_a_host_that_others_need_has_the_least_weight_and_gets_it_back() -> None:
    host = Host()
    full = host.spend(1, others=0.0)[-1]
    assert host.spend(60, others=0.95)[-1] == full >> (LEVELS - 1)
    assert host.spend(60, others=0.0)[-1] == full


def test_a_short_burst_does_not_change_the_weight() -> None:
    host = Host()
    full = host.spend(10, others=0.1)[-1]
    assert set(host.spend(1.0, others=0.6) + host.spend(30, others=0.1)) == {full}


@given(st.floats(0.05, 0.75), st.lists(st.floats(-0.04, 0.04), min_size=300, max_size=300))
def test_small_changes_around_any_load_change_the_weight_once_at_most(
    load: float, noise: list[float]
) -> None:
    host = Host()
    host.spend(60, others=load)
    seen = [host.spend(0.1, others=load + part)[0] for part in noise]
    assert sum(1 for a, b in pairwise(seen) if a != b) <= 1


def test_an_agent_without_workers_weighs_one() -> None:
    assert set(Host(workers=0).spend(1, others=0.0)) == {1}


@pytest.mark.parametrize("wrong", [{"margin": 0.4}, {"margin": 2.0}, {"smoothing_s": -1.0}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="weight"):
        WeightLimits(**wrong)
