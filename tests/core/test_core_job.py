"""What a job's specification refuses, so that no host has to."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigError
from headrace.core.job import ScheduleSpec


@pytest.mark.parametrize("seed", [1 << 64, -(1 << 63) - 1])
def test_a_seed_that_does_not_travel_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match="64 bits"):
        ScheduleSpec(seed=seed, batch_size=1)


@pytest.mark.parametrize("seed", [(1 << 64) - 1, -(1 << 63)])
def test_every_seed_of_64_bits_is_taken(seed: int) -> None:
    assert ScheduleSpec(seed=seed, batch_size=1).seed == seed
