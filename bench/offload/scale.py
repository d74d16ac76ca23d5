"""How much is measured: the full run, and a quick one of the same method."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.demo.recipes import DatasetSize

DATASET = DatasetSize(
    photos=100, captioned=1900, clips=120, long_clips=12, truncated=4, shard_samples=150
)
"""Photographs in shards of about 90 MB, as multimodal jobs store them; clips, a file each."""

SEED = 7

GUARD_THRESHOLD = 0.8
"""Share of its host's CPU at which an agent stops to transform; the agents' default."""

UTILISATION = 0.8
"""How much of what the guard leaves an agent the step time asks for: just in time, with room
for samples that cost a hundred times the median."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Sizes of a run."""

    batch: int = 8
    warmup_steps: int = 6
    """Steps at the start of a segment that do not count, for either loader."""

    first_step: float = 10.0
    """How long a segment's first step takes, in steps: a job's first compiles and allocates."""

    gap_steps: int = 48
    """Steps left out between pairs, so that no agent has prepared the next ones already."""

    pairs: int = 3
    steps: int = 80
    """Counted steps of a segment in the main comparison."""

    calibration_steps: int = 160
    tuning_steps: int = 30
    workers: tuple[int, ...] = (1, 2, 4)
    """Worker processes of the DataLoader that are tried."""

    prefetch: tuple[int, ...] = (2, 4, 8)
    """Batches per worker under way that are tried with the best number of workers."""

    other_pairs: int = 2
    other_steps: int = 40
    """Counted steps of a segment where storage is busy, and where both sides have equal CPU."""

    sweep: tuple[float, ...] = (0.5, 1.5, 2.5, 4.0, 6.0)
    """Step times that are tried, in units of the main comparison's, which is a point as well."""

    sweep_steps: int = 40
    idle_s: float = 30.0
    """How long agents without a job are watched [s]."""

    reading_s: float = 15.0
    """How long plain readers are watched while agents are idle, each time [s]."""


QUICK = Scale(
    pairs=1,
    steps=16,
    warmup_steps=4,
    gap_steps=32,
    calibration_steps=8,
    tuning_steps=4,
    workers=(1, 2),
    prefetch=(4,),
    other_pairs=1,
    other_steps=5,
    sweep=(4.0,),
    sweep_steps=5,
    idle_s=2.0,
    reading_s=2.0,
)
"""Ends within a minute beyond building the data: fewer steps and repeats, the same method."""
