"""How much is measured: the full run, and a quick one of the same method."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.demo.recipes import DatasetSize

DATASET = DatasetSize(
    photos=100, captioned=1900, clips=120, long_clips=12, truncated=4, shard_samples=150
)
"""Photographs in shards of about 90 MB, as multimodal jobs store them; clips, a file each."""

SEED = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Sizes of a run."""

    batch: int = 16
    first_step_s: float = 20.0
    """How long a segment's first step takes, which does not count: a job's first compiles and
    allocates. Every loader works ahead meanwhile, so that a segment shows its steady state [s]."""

    warmup_steps: int = 12
    """Steps at the start of a segment that do not count, the first among them: more than a loader
    asks for before it knows the pace."""

    tuning_warmup_steps: int = 4

    gap_steps: int = 48
    """Steps left out between pairs, so that no agent has prepared the next ones already."""

    pairs: int = 3
    steps: int = 60
    """Counted steps of a segment in the main comparison."""

    calibration_steps: int = 100
    tuning_steps: int = 16
    workers: tuple[int, ...] = (1, 2, 4)
    """Worker processes of the DataLoader that are tried."""

    prefetch: tuple[int, ...] = (2, 8)
    """Batches per worker under way that are tried with the best number of workers, besides 4."""

    other_pairs: int = 1
    other_steps: int = 30
    """Counted steps of a segment under another premise."""

    sweep: tuple[float, ...] = (0.5, 2.0, 4.0)
    """Step times that are tried, in units of the main comparison's, which is a point as well."""

    sweep_s: float = 30.0
    """Least emulated time of the counted steps at each of them: longer than agents work ahead, so
    that what was prepared during the first step does not hide that they cannot keep up [s]."""

    sweep_steps: int = 20
    """Least number of counted steps at each of them."""

    idle_s: float = 30.0
    """How long agents without a job are watched [s]."""

    reading_s: float = 15.0
    """How long plain readers are watched while agents are idle, each time [s]."""

    short: bool = False
    """Leave out everything but the main comparison."""


QUICK = Scale(
    batch=8,
    first_step_s=7.0,
    warmup_steps=10,
    tuning_warmup_steps=2,
    pairs=1,
    steps=8,
    calibration_steps=6,
    tuning_steps=3,
    workers=(1, 2),
    prefetch=(),
    idle_s=1.0,
    short=True,
)
"""Ends within a minute beyond building the data: fewer steps and comparisons, the same method."""
