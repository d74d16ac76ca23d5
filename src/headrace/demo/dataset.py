"""Builds the demo's dataset in a directory; what is already there is kept.

Every file appears whole or not at all, so an interrupted build goes on where it stopped.
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image

from headrace.core.digest import name_digest
from headrace.core.errors import StorageError
from headrace.demo.encode import clip_bytes, photo_bytes, read_frames
from headrace.demo.recipes import SOURCE_FRAMES, PhotoRecipe, Recipes, caption
from headrace.demo.sources import Source, credit

Progress = Callable[[int, int], None]
"""Called with the number of files that are done and of all files."""


LINK = "dataset"
"""Name below the demo's directory that leads to the dataset, whatever its recipe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoDataset:
    """A dataset that is complete on disk."""

    root: Path
    samples: int
    size_bytes: int
    origin: str
    """Where its pictures come from and what was done to them, for people."""


def build_dataset(
    directory: Path,
    *,
    sources: tuple[Source, ...],
    recipes: Recipes,
    progress: Progress,
    workers: int,
) -> DemoDataset:
    """Make what is missing of the dataset below ``directory`` and describe the whole.

    The dataset's own directory is named by its recipes, so it never mixes with another's.

    Raises:
        StorageError: a file cannot be written; the message names it.
    """
    root = directory / f"dataset-{name_digest(msgspec.json.encode(asdict(recipes)))[:8]}"
    groups = _groups(recipes, {source.name: source for source in sources})
    files = [file for group in groups for file in group.makers]
    counter = _Counter(progress, total=len(files))
    pool = ThreadPoolExecutor(workers)
    try:
        for future in [pool.submit(_make, root, group, counter.add) for group in groups]:
            future.result()
    finally:
        counter.stopped = True
        pool.shutdown(cancel_futures=True)
    _point_to(root, directory / LINK)
    return _describe(root, files, recipes, sources)


def _point_to(root: Path, link: Path) -> None:
    """Let a name that does not change lead to the dataset."""
    fresh = link.with_name(f".{link.name}.partial")
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(root.name)
        fresh.replace(link)
    except OSError as error:
        raise StorageError(
            f"{link} cannot be made to lead to {root.name}: {error.strerror}; "
            "choose another directory with --dir"
        ) from error


class _Counter:
    """Counts finished files over threads; asks the threads to stop when the build is left."""

    def __init__(self, progress: Progress, *, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self.stopped = False

    def add(self) -> bool:
        """Count one file; False when the build has ended early."""
        with self._lock:
            self._done += 1
            self._progress(self._done, self._total)
        return not self.stopped


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """Files that are made of the same decoded sources, on one thread."""

    load: Callable[[], Any]
    makers: dict[str, Callable[[Any], bytes]]


def _make(root: Path, group: _Group, done: Callable[[], bool]) -> None:
    missing = {file: make for file, make in group.makers.items() if not (root / file).exists()}
    decoded = group.load() if missing else None
    for file, make in group.makers.items():
        if file in missing:
            _write(root / file, make(decoded))
        if not done():
            return


def _write(path: Path, data: bytes) -> None:
    partial_path = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial_path.write_bytes(data)
        partial_path.replace(path)
    except OSError as error:
        raise StorageError(
            f"the demo's dataset cannot be written: {path}: {error.strerror}; "
            "choose another directory with --dir"
        ) from error


def _groups(recipes: Recipes, sources: dict[str, Source]) -> list[_Group]:
    clips = [_clip_group(recipes, source) for source in sources.values() if source.media == "clip"]
    photos = [
        _photo_group(recipes, source) for source in sources.values() if source.media == "photo"
    ]
    shards = [_shard_group(shard, members, sources) for shard, members in recipes.shards]
    return [*clips, *shards, *photos]


def _clip_group(recipes: Recipes, source: Source) -> _Group:
    cuts: dict[str, Callable[[Any], bytes]] = {
        clip.file: partial(clip_bytes, clip) for clip in recipes.clips if clip.source == source.name
    }
    copies: dict[str, Callable[[Any], bytes]] = {
        file: lambda _: source.path.read_bytes()
        for file, name in recipes.copies
        if name == source.name
    }
    return _Group(load=partial(read_frames, source.path, limit=SOURCE_FRAMES), makers=cuts | copies)


def _photo_group(recipes: Recipes, source: Source) -> _Group:
    return _Group(
        load=partial(_open_photo, source.path),
        makers={
            photo.file: partial(photo_bytes, photo)
            for photo in recipes.photos
            if photo.source == source.name
        },
    )


def _shard_group(file: str, members: tuple[PhotoRecipe, ...], sources: dict[str, Source]) -> _Group:
    names = {member.source for member in members}
    classes = {name: label for label, name in enumerate(sorted(sources))}
    return _Group(
        load=lambda: {name: _open_photo(sources[name].path) for name in names},
        makers={file: partial(_shard_bytes, members, classes)},
    )


def _open_photo(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("L" if image.mode == "L" else "RGB")


def _shard_bytes(
    members: tuple[PhotoRecipe, ...], classes: dict[str, int], photos: dict[str, Image.Image]
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as shard:
        for recipe in members:
            _add(shard, f"{recipe.file}.jpg", photo_bytes(recipe, photos[recipe.source]))
            _add(shard, f"{recipe.file}.cls", str(classes[recipe.source]).encode())
            _add(shard, f"{recipe.file}.txt", caption(recipe).encode())
    return buffer.getvalue()


def _add(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    shard.addfile(member, io.BytesIO(data))


def _describe(
    root: Path, files: list[str], recipes: Recipes, sources: tuple[Source, ...]
) -> DemoDataset:
    captioned = sum(len(members) for _, members in recipes.shards)
    return DemoDataset(
        root=root,
        samples=len(files) - len(recipes.shards) + captioned,
        size_bytes=sum((root / file).stat().st_size for file in files),
        origin=_origin(recipes, captioned, sources),
    )


def _origin(recipes: Recipes, captioned: int, sources: tuple[Source, ...]) -> str:
    broken = sum(recipe.keep < 1 for recipe in recipes.photos)
    long = sum(recipe.repeats > 0 for recipe in recipes.clips)
    minutes = f" ({long} of them minutes long: their scene again and again)" if long else ""
    return (
        f"{credit(sources)} They are small, so {len(recipes.photos) + captioned} photographs are "
        "windows of enlarged pictures with camera-like noise, encoded again as JPEG, PNG and WebP "
        f"(1 to 8 megapixels; {captioned} of them captioned, in WebDataset shards; {broken} "
        f"truncated on purpose); {len(recipes.clips)} clips are cuts, scaled and encoded again by "
        f"libx264{minutes}, and {len(recipes.copies)} are as they came."
    )
