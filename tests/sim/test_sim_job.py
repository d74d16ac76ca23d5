"""A simulated job reads what its schedule says."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.core.job import ScheduleSpec, SourceSpec
from headrace.schedule.schedule import Schedule
from headrace.sim.job import Dataset, SimulatedJob, batches_of, sample_sizes


@pytest.mark.parametrize("order", ["shuffle", "block", "sequential"])
@pytest.mark.parametrize("samples", [7, 1000, 5003])
def test_each_batch_has_the_bytes_of_the_schedules_own_batch(order, samples):
    data = Dataset(samples=samples, mean_bytes=1e6, spread=1.5, seed=3)
    job = SimulatedJob(name="a", dataset=data, batch_size=7, step_time_s=1.0, order=order, seed=11)
    spec = ScheduleSpec(seed=11, batch_size=7, order=order)
    schedule = Schedule(spec, [SourceSpec(url="", index_digest="", samples=samples)])
    batches, sizes = batches_of(job), sample_sizes(data)
    for step in (0, 1, 5, schedule.steps_per_epoch - 1, schedule.steps_per_epoch, 300):
        own = sizes[schedule.batch(step).samples].sum()
        assert batches.end(step) - batches.end(step - 1) == pytest.approx(own)
        assert batches.ahead(step, 1)[0] == pytest.approx(own)


def test_whole_batches_are_counted_from_a_step_on():
    job = SimulatedJob(
        name="a", dataset=Dataset(samples=100, mean_bytes=10.0), batch_size=4, step_time_s=1.0
    )
    batches = batches_of(job)
    assert batches.complete(batches.end(6), from_step=3) == 4
    assert batches.complete(batches.end(6) - 1.0, from_step=3) == 3
    assert batches.complete(batches.end(1), from_step=3) == 0
    assert batches.complete(0.0, from_step=900) == 0


def test_sizes_are_heavy_tailed_around_their_mean():
    sizes = sample_sizes(Dataset(samples=100_000, mean_bytes=1e6, spread=1.0))
    assert sizes.mean() == pytest.approx(1e6)
    assert np.percentile(sizes, 99) > 5e6
