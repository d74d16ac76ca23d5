"""The simulated loop: what is waited for, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.assess.loop import (
    AGENT_WINDOW,
    LOADER_WINDOW,
    Fleet,
    Loop,
    Samples,
    with_agents,
    with_workers,
    without_workers,
)
from headrace.client.config import LoaderConfig
from headrace.core.errors import ConfigError

LOOP = Loop(batch_size=8, step_s=0.1)


def samples(
    cpu_s: float = 0.0, *, read_s: float = 0.0, wire: float = 0.0, heavy: float = 0.0
) -> Samples:
    """Return equal samples, of which one in each third batch is heavy."""
    count = LOOP.batch_size * LOOP.steps
    local = np.full(count, cpu_s)
    if heavy:
        local[:: 3 * LOOP.batch_size] = heavy
    return Samples(
        read_s=np.full(count, read_s),
        local_s=local,
        storage_s=local,
        wire_bytes=np.full(count, wire),
        trainer_s=np.zeros(count),
    )


def test_a_loop_that_makes_its_batches_itself_waits_for_all_of_it() -> None:
    stall = without_workers(LOOP, samples(0.025))
    assert stall.share == pytest.approx(2 / 3)
    assert stall.p99_s == pytest.approx(0.2)
    assert stall.samples_per_s == pytest.approx(8 / 0.3)


def test_enough_workers_leave_nothing_to_wait_for_and_too_few_leave_the_rest() -> None:
    assert with_workers(LOOP, samples(0.025), workers=4, cpus=4).share == pytest.approx(0, abs=1e-9)
    assert with_workers(LOOP, samples(0.025), workers=1, cpus=4).share == pytest.approx(0.5)


def test_workers_that_share_cpus_are_no_faster_than_these() -> None:
    few = with_workers(LOOP, samples(0.025), workers=8, cpus=1)
    assert few.share == pytest.approx(0.5, abs=0.02)
    reading = with_workers(LOOP, samples(read_s=0.05), workers=8, cpus=1)
    assert reading.share == pytest.approx(0, abs=1e-9)


def test_a_heavy_sample_is_hidden_by_the_window_where_workers_are_free_and_not_by_means() -> None:
    """Each third batch has a sample of 0.25 s: on the mean two workers would do."""
    asked = samples(0.005, heavy=0.25)
    assert with_workers(LOOP, asked, workers=4, cpus=4).p99_s == pytest.approx(0, abs=1e-9)
    assert without_workers(LOOP, asked).p99_s == pytest.approx(0.285)


def test_agents_are_as_fast_as_the_slowest_of_cpus_and_link() -> None:
    def stall(workers: int, bandwidth: float) -> float:
        fleet = Fleet(workers=workers, bandwidth=bandwidth, trainer_cpus=1)
        return with_agents(LOOP, samples(0.025, wire=100e3), fleet).share

    assert stall(4, 1e9) == pytest.approx(0, abs=1e-9)
    assert stall(1, 1e9) == pytest.approx(0.5, abs=0.01)
    assert stall(4, 4e6) == pytest.approx(0.5, abs=0.01)


def test_the_same_samples_give_the_same_figures() -> None:
    fleet = Fleet(workers=2, bandwidth=5e6, trainer_cpus=2)
    asked = samples(0.03, wire=7e4, heavy=0.3)
    assert with_agents(LOOP, asked, fleet) == with_agents(LOOP, asked, fleet)


def test_enough_steps_are_simulated_for_a_p99() -> None:
    assert Loop(batch_size=100_000, step_s=1).steps > 2 * AGENT_WINDOW
    assert Loop(batch_size=1, step_s=1).steps == 400


def test_a_loader_is_as_far_ahead_as_it_is_by_default() -> None:
    assert LoaderConfig(batch_size=1).prefetch_steps == LOADER_WINDOW


def test_a_loop_that_takes_no_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="step_s=0 s above 0"):
        Loop(batch_size=1, step_s=0)
