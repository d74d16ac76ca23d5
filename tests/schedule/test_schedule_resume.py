"""What a resumed job reads: the rest of what it would have read, whoever its ranks are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.job import Order, ScheduleSpec, SourceSpec, Tail
from headrace.schedule.schedule import Schedule

WORLDS = st.sampled_from([1, 2, 3, 8])
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=3)
WEIGHTS = st.lists(st.sampled_from([1.0, 2.5, 40.0]), min_size=3, max_size=3)


def schedule(sizes: list[int], weights: list[float], spec: ScheduleSpec) -> Schedule:
    """Return a schedule as another process would build it."""
    sources = [
        SourceSpec(url=f"source-{number}", index_digest="d", samples=size, weight=weights[number])
        for number, size in enumerate(sizes)
    ]
    return Schedule(spec, sources)


@settings(deadline=None, max_examples=30)
@given(
    sizes=SIZES,
    weights=WEIGHTS,
    order=st.sampled_from(["shuffle", "block", "sequential"]),
    tail=st.sampled_from(["drop", "short", "pad"]),
    batch_size=st.integers(1, 20),
    epoch_samples=st.none() | st.integers(20, 200),
    first=st.integers(0, 10**9),
    stretches=st.lists(st.tuples(st.integers(0, 8), WORLDS), min_size=1, max_size=3),
)
def test_stretches_of_steps_on_other_worlds_are_one_whole_with_nothing_lost_or_repeated(
    sizes: list[int],
    weights: list[float],
    order: Order,
    tail: Tail,
    batch_size: int,
    epoch_samples: int | None,
    first: int,
    stretches: list[tuple[int, int]],
) -> None:
    spec = ScheduleSpec(
        seed=5,
        batch_size=min(batch_size, epoch_samples or sum(sizes)),
        order=order,
        block=4,
        mix=3,
        tail=tail,
        epoch_samples=epoch_samples,
    )
    steps = sum(count for count, _ in stretches)
    whole = schedule(sizes, weights, spec)
    expected = [whole.batch(first + number) for number in range(steps)]
    step = first
    for count, world in stretches:
        resumed = schedule(sizes, weights, spec)
        for _ in range(count):
            parts = [resumed.shard(step, rank, world) for rank in range(world)]
            batch = expected[step - first]
            assert (
                np.concatenate([part.samples for part in parts]).tolist() == batch.samples.tolist()
            )
            assert np.concatenate([part.epochs for part in parts]).tolist() == batch.epochs.tolist()
            assert {part.epoch for part in parts} == {batch.epoch}
            sizes_of_parts = [part.samples.size for part in parts]
            assert max(sizes_of_parts) - min(sizes_of_parts) <= 1
            step += 1


@settings(deadline=None, max_examples=25)
@given(sizes=SIZES, tail=st.sampled_from(["drop", "short", "pad"]), at=st.integers(0, 30))
def test_an_epoch_left_at_any_step_and_gone_on_with_holds_each_sample_once(
    sizes: list[int], tail: Tail, at: int
) -> None:
    total, size = sum(sizes), min(7, sum(sizes))
    weights = [float(one) for one in sizes]
    spec = ScheduleSpec(seed=1, batch_size=size, tail=tail)
    before, after = (schedule(sizes, weights, spec) for _ in range(2))
    steps = before.steps_per_epoch
    left = min(at, steps)
    seen = [before.batch(step).samples for step in range(left)]
    seen += [after.shard(step, rank, 3).samples for step in range(left, steps) for rank in range(3)]
    counts = np.bincount(np.concatenate(seen)[:total], minlength=total)
    assert counts.max() == 1
    assert counts.sum() == (total // size * size if tail == "drop" else total)
