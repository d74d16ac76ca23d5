"""Plans the demo's dataset: which window of which source becomes which file. Pure.

Pixel sizes are heavy-tailed, as in scraped photographs: most around 2 megapixels, a few
as large as a camera's. All of it follows from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headrace.core.draws import Draws, SampleKey
from headrace.demo.sources import Source

Format = Literal["jpg", "png", "webp"]

_PHOTO, _CLIP = 0, 1
LARGEST_MEGAPIXELS = 8.0
SOURCE_FRAMES = 120
"""Frames of a source that clips are cut from; every carried clip has as many."""

FRAME_SIZES = {
    "bigbuckbunny": ((640, 360), (480, 270), (854, 480)),
    "bikes": ((640, 272), (480, 204)),
    "carphone": ((352, 288), (176, 144)),
}

LONG_SIZE = (1280, 720)
LONG_REPEATS = (10, 15, 20, 40)
"""How often a long clip shows its scene, there and back: 96 s to 384 s at 25 frames a second."""

LONG_GOPS = (120, 120, 240)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSize:
    """How many samples of each kind the demo's dataset has."""

    photos: int = 260
    """Photographs in class folders."""

    captioned: int = 40
    """Photographs with a caption and a class, in WebDataset shards."""

    clips: int = 36
    """Re-encoded cuts, besides the clips as the packages carry them."""

    long_clips: int = 0
    """Clips of minutes, whose samples cost a hundred times what a photograph does."""

    truncated: int = 2
    """Of ``photos``: JPEGs cut off in the middle, as a broken download leaves them."""

    shard_samples: int = 20
    """Captioned photographs in one shard."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhotoRecipe:
    """One photograph: a window of an enlarged source."""

    file: str
    """Path in the dataset; in a shard, the member's name without extension."""

    source: str
    width: int
    height: int
    left: float
    """Where the window lies in what is left of the enlarged source, 0 … 1."""

    top: float
    format: Format = "jpg"
    quality: int = 90
    keep: float = 1.0
    """Share of the encoded bytes that is written; below 1 the file is truncated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipRecipe:
    """One clip: some frames of a source, scaled and encoded again."""

    file: str
    source: str
    start: int
    """First frame."""

    frames: int
    width: int
    height: int
    gop: int
    """Frames from one keyframe to the next."""

    repeats: int = 0
    """0: the frames once. Else so many times there and back, coded once and repeated as coded."""

    crf: int = 23
    """Constant rate factor of libx264: higher is smaller and worse."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipes:
    """The whole dataset, as a plan."""

    photos: tuple[PhotoRecipe, ...]
    shards: tuple[tuple[str, tuple[PhotoRecipe, ...]], ...]
    """Shard's path and its samples."""

    clips: tuple[ClipRecipe, ...]
    copies: tuple[tuple[str, str], ...]
    """Path in the dataset and source's name: clips taken as they are."""


def plan_dataset(sources: Sequence[Source], size: DatasetSize, *, seed: int) -> Recipes:
    """Return what to make; the same for the same arguments, on every machine."""
    photos = [source.name for source in sources if source.media == "photo"]
    clips = [source.name for source in sources if source.media == "clip"]
    planned = [_photo(photos, number, seed) for number in range(size.photos + size.captioned)]
    loose, captioned = planned[: size.photos], planned[size.photos :]
    step = max(1, len(loose) // max(1, size.truncated))
    cut = set(range(step // 2, len(loose), step)[: size.truncated]) if size.truncated else set()
    return Recipes(
        photos=tuple(_loose(recipe, truncated=n in cut) for n, recipe in enumerate(loose)),
        shards=tuple(_shards([_plain(recipe) for recipe in captioned], size.shard_samples)),
        clips=(
            *(_clip(clips, number, seed) for number in range(size.clips)),
            *(_long_clip(clips, number) for number in range(size.long_clips)),
        ),
        copies=tuple((f"{name}/original.mp4", name) for name in clips),
    )


def _photo(names: Sequence[str], number: int, seed: int) -> PhotoRecipe:
    draws = Draws(SampleKey(seed, 0, number), _PHOTO)
    pixels = 1e6 * _megapixels(draws)
    aspect = (3 / 2, 4 / 3, 1.0, 3 / 4, 16 / 9)[draws.integer(5)]
    return PhotoRecipe(
        file=f"{number:04d}",
        source=names[number % len(names)],
        width=round(math.sqrt(pixels * aspect)),
        height=round(math.sqrt(pixels / aspect)),
        left=draws.uniform(),
        top=draws.uniform(),
        format=_format(draws, pixels),
        quality=85 + draws.integer(11),
    )


def _megapixels(draws: Draws) -> float:
    normal = math.sqrt(-2 * math.log(1 - draws.uniform())) * math.cos(math.tau * draws.uniform())
    return min(LARGEST_MEGAPIXELS, max(1.0, 2.0 * math.exp(0.65 * normal)))


def _format(draws: Draws, pixels: float) -> Format:
    if pixels > 1.5e6 or draws.chance(0.6):
        return "jpg"
    return "png" if draws.chance(0.5) else "webp"


def _loose(recipe: PhotoRecipe, *, truncated: bool) -> PhotoRecipe:
    format_: Format = "jpg" if truncated else recipe.format
    return replace(
        recipe,
        file=f"{recipe.source}/{recipe.file}.{format_}",
        format=format_,
        keep=0.4 if truncated else 1.0,
    )


def _plain(recipe: PhotoRecipe) -> PhotoRecipe:
    return replace(recipe, format="jpg")


def _shards(captioned: list[PhotoRecipe], length: int) -> list[tuple[str, tuple[PhotoRecipe, ...]]]:
    return [
        (f"captioned-{first // length:03d}.tar", tuple(captioned[first:][:length]))
        for first in range(0, len(captioned), length)
    ]


def _clip(names: Sequence[str], number: int, seed: int) -> ClipRecipe:
    draws = Draws(SampleKey(seed, 0, number), _CLIP)
    name = names[number % len(names)]
    sizes = FRAME_SIZES[name]
    width, height = sizes[draws.integer(len(sizes))]
    frames = 32 + draws.integer(64)
    return ClipRecipe(
        file=f"{name}/{number:03d}.mp4",
        source=name,
        start=draws.integer(SOURCE_FRAMES - frames),
        frames=frames,
        width=width,
        height=height,
        gop=(12, 24, 48)[draws.integer(3)],
    )


def _long_clip(names: Sequence[str], number: int) -> ClipRecipe:
    name = names[number % len(names)]
    width, height = LONG_SIZE
    return ClipRecipe(
        file=f"{name}/long-{number:03d}.mp4",
        source=name,
        start=0,
        frames=SOURCE_FRAMES,
        width=width,
        height=height,
        gop=LONG_GOPS[number % len(LONG_GOPS)],
        repeats=LONG_REPEATS[number // len(names) % len(LONG_REPEATS)],
        crf=28,
    )


def caption(recipe: PhotoRecipe) -> str:
    """Return the caption of a photograph in a shard."""
    megapixels = recipe.width * recipe.height / 1e6
    return f"A photograph of class {recipe.source}, {megapixels:.1f} megapixels."
