"""The fluid cache: warm and cold, under a scan, and against what theory says."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.core.job import ScheduleSpec, SourceSpec
from headrace.policy.nextuse import NextUseCache, Use
from headrace.schedule.schedule import Schedule
from headrace.sim.cache import Cache

DATASET, EPOCH_S = 1e12, 10_000.0
STEP_S = 10.0
READ = DATASET / EPOCH_S * STEP_S


def cache(room, *, clairvoyant=False, jobs=1, warm=0.0):
    return Cache(
        room=room,
        epoch_bytes=np.full(jobs, DATASET),
        epoch_s=np.full(jobs, EPOCH_S),
        warm=np.full(jobs, warm),
        uses=np.ones(jobs, dtype=bool),
        clairvoyant=clairvoyant,
    )


def run(held, epochs, *, read=READ, scanned=0.0):
    """Read at one pace and return the hit rate over all that was read."""
    rates = []
    for _ in range(round(epochs * EPOCH_S / STEP_S)):
        rates.append(held.hit_rates().mean())
        held.advance(np.full(held.hit_rates().size, read), scanned=scanned)
    return float(np.mean(rates))


@pytest.mark.parametrize("clairvoyant", [False, True])
def test_a_dataset_that_fits_is_held_after_one_epoch(clairvoyant):
    held = cache(1.1 * DATASET, clairvoyant=clairvoyant)
    assert run(held, 1) < 0.01
    assert run(held, 2) > 0.99


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6])
def test_the_clairvoyant_cache_hits_all_that_can_be_hit(part):
    # A sample is read once an epoch, so what an epoch hits lay there when the epoch began:
    # no rule can hit more than the part of the dataset that there is room for.
    held = cache(part * DATASET, clairvoyant=True)
    run(held, 2)
    assert run(held, 3) == pytest.approx(part, abs=0.01)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_the_fluid_hits_as_often_as_the_agents_policy_over_a_real_schedule(part):
    samples, epochs = 480, 5
    source = SourceSpec(url="data", index_digest="d", samples=samples)
    schedule = Schedule(ScheduleSpec(seed=7, batch_size=24), [source])
    kept = NextUseCache(round(part * samples), lambda use: float(use.step))
    hits = 0
    for step in range(epochs * schedule.steps_per_epoch):
        batch = schedule.batch(step)
        uses = schedule.next_use(batch.samples, step).tolist()
        for sample, then in zip(batch.samples.tolist(), uses, strict=True):
            if sample in kept:
                hits += batch.epoch >= 2
                kept.move(sample, Use("job", then))
            else:
                kept.offer(sample, 1, Use("job", then))
    held = cache(part * DATASET, clairvoyant=True)
    run(held, 2)
    assert hits / (samples * (epochs - 2)) == pytest.approx(run(held, epochs - 2), abs=0.02)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6])
def test_knowing_the_future_beats_the_page_cache(part):
    plain, knowing = cache(part * DATASET), cache(part * DATASET, clairvoyant=True)
    run(plain, 3), run(knowing, 3)
    assert run(knowing, 3) > run(plain, 3) + 0.05


def test_a_scan_empties_a_page_cache_and_leaves_the_clairvoyant_one_alone():
    plain, knowing = cache(1.1 * DATASET), cache(1.1 * DATASET, clairvoyant=True)
    for held in (plain, knowing):
        run(held, 1.5)
    assert run(knowing, 0.2, scanned=10 * READ) > 0.99
    assert run(plain, 0.2, scanned=10 * READ) < 0.6
    assert plain.scanned_bytes > knowing.scanned_bytes == 0.0


def test_a_page_cache_recovers_from_a_scan_within_two_epochs():
    held = cache(1.2 * DATASET)
    run(held, 1.5)
    run(held, 0.2, scanned=10 * READ)
    run(held, 2)
    assert run(held, 1) > 0.9


@pytest.mark.parametrize("clairvoyant", [False, True])
def test_no_more_is_held_than_there_is_room(clairvoyant):
    held = cache(0.7 * DATASET, jobs=3, clairvoyant=clairvoyant, warm=1.0)
    for _ in range(3000):
        held.advance(np.array([READ, 2 * READ, 30 * READ]), scanned=READ)
        assert held.held_bytes.sum() + held.scanned_bytes <= 0.7 * DATASET * (1 + 1e-9)
        assert (held.held_bytes >= 0).all()
        assert (held.hit_rates() <= 1.0).all()


def test_a_job_that_moves_loses_its_page_cache_but_not_the_agents_cache():
    plain, knowing = cache(2 * DATASET, warm=1.0), cache(2 * DATASET, warm=1.0, clairvoyant=True)
    for held in (plain, knowing):
        held.forget(0, 0.75)
    assert plain.held_bytes[0] == pytest.approx(0.25 * DATASET)
    assert knowing.held_bytes[0] == pytest.approx(DATASET)
