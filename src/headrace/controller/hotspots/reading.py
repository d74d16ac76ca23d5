"""Which files of a checkpoint many ranks are going to read, told by the checkpoint itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

from headrace.checkpoint.find import FanIn, hot_ranges, layout_of, open_checkpoint
from headrace.checkpoint.layout import Checkpoint, Reading
from headrace.controller.hotspots.places import Place, place_of
from headrace.core.errors import NotFoundError
from headrace.policy.hotspot.events import HotFile
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.hotspots import MOST_FILES, HotspotAsked

LEAST_READERS = 4
"""Bytes that fewer read are not hot."""

MOST_RANGES = 256
"""Hot ranges of one file; where there are more, the smallest gaps between them are hot, too."""


def read_hot_files(asked: HotspotAsked) -> tuple[HotFile, ...]:
    """Return what turns hot, that which most is read of first; waits for the store.

    Raises:
        CallerError: there is no such checkpoint or file, or so many ranks cannot load it.
        CorruptDataError: what describes the checkpoint is damaged or hostile.
        StorageError: it cannot be read.
    """
    with closing(open_storage(asked.url)) as storage:
        place = place_of(storage)
        if asked.files:
            return tuple(_whole_file(storage, place, path, asked) for path in asked.files)
    with closing(open_storage(place.store)) as root:
        checkpoint = _opened_checkpoint(root, place)
        readings = layout_of(checkpoint).readings(root, checkpoint, asked.world_size)
    parts = hot_ranges(_by_host(readings, asked), LEAST_READERS)
    return tuple(_hot_files(checkpoint, place, parts))[:MOST_FILES]


def _opened_checkpoint(root: Storage, place: Place) -> Checkpoint:
    try:
        return open_checkpoint(root, place.folder)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error}; where every rank reads certain files whole, announce these (--file, files=)"
        ) from error


def _whole_file(storage: Storage, place: Place, path: str, asked: HotspotAsked) -> HotFile:
    size = storage.stat(path).size
    readers = asked.hosts or asked.world_size
    return HotFile(file=place.file(path), size=size, hot_bytes=size, readers=readers)


def _by_host(readings: Iterable[Reading], asked: HotspotAsked) -> Iterable[Reading]:
    """Return the readings with hosts for ranks where ranks of one host read together."""
    if asked.hosts is None:
        return readings
    per_host = -(-asked.world_size // asked.hosts)
    return [replace(one, ranks=_hosts(one.ranks, per_host)) for one in readings]


def _hosts(ranks: range, per_host: int) -> range:
    """Return the hosts that ranks are on, so many consecutive ones on each."""
    if not ranks:
        return ranks
    return range(ranks[0] // per_host, ranks[-1] // per_host + 1, max(ranks.step // per_host, 1))


def _hot_files(checkpoint: Checkpoint, place: Place, parts: Iterable[FanIn]) -> list[HotFile]:
    sizes = {file.path: file.size for file in checkpoint.files}
    of_file: dict[str, list[FanIn]] = defaultdict(list)
    for part in parts:
        if part.file in sizes:
            of_file[part.file].append(part)
    found = [_hot_file(place, path, sizes[path], hot) for path, hot in of_file.items()]
    return sorted(found, key=lambda one: (-one.readers * one.hot_bytes, one.file))


def _hot_file(place: Place, path: str, size: int, parts: Sequence[FanIn]) -> HotFile:
    hot_bytes = sum(part.length for part in parts)
    read = sum(part.length * part.readers for part in parts)
    return HotFile(
        file=place.file(path),
        size=size,
        hot_bytes=hot_bytes,
        readers=round(read / max(hot_bytes, 1)),
        ranges=_joined([(part.offset, part.length) for part in parts]),
    )


def _joined(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges, in order, that cover the same and no more than must be."""
    gaps = [following[0] - before[0] - before[1] for before, following in pairwise(ranges)]
    kept = set(sorted(range(len(gaps)), key=lambda one: -gaps[one])[: MOST_RANGES - 1])
    kept = {one for one in kept if gaps[one] > 0}
    begins = [ranges[0][0], *(ranges[one + 1][0] for one in sorted(kept))]
    ends = [*(sum(ranges[one]) for one in sorted(kept)), sum(ranges[-1])]
    return tuple((begin, end - begin) for begin, end in zip(begins, ends, strict=True))
