"""Makes a folder of segments smaller: those that are closed become one sorted file for each host.

Nothing is lost or read twice at any moment: the file names the segments that it holds, and readers
pass over those until they are removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from headrace.core.errors import CorruptDataError
from headrace.trace.exportparquet import export_parquet
from headrace.trace.importer import HEAD_BYTES, Notes
from headrace.trace.importers.eventparquet import About
from headrace.trace.importers.segments import Segments, host_of
from headrace.trace.segments import SUFFIX, free_path, is_growing

PARQUET_SUFFIX = ".events.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compacted:
    """What became of segments."""

    files: tuple[Path, ...]
    """That were written."""

    segments: int
    """That they hold, and that were removed."""

    events: int
    before_bytes: int
    after_bytes: int
    damaged: tuple[Path, ...]
    """Segments that were left as they are."""


def closed_segments(folder: Path) -> list[Path]:
    """Return the segments of a folder that no recorder has open."""
    return [path for path in sorted(folder.glob(f"*{SUFFIX}")) if not is_growing(path)]


def holds_events(folder: Path) -> bool:
    """Return whether something was recorded into a folder, compacted or not."""
    return any(path.name.endswith((SUFFIX, PARQUET_SUFFIX)) for path in folder.iterdir())


def compact(
    segments: Sequence[Path], advanced: Callable[[int], None] = lambda _: None
) -> Compacted:
    """Write one file for the segments of each host, beside them, then remove the segments.

    Args:
        segments: Closed ones, of one folder.
        advanced: Called with the bytes that were read since the last call; all are read twice.

    Raises:
        StorageError: a file cannot be written or read; segments that are not in a file that was
            written whole are still there.
    """
    lost: defaultdict[str | None, int] = defaultdict(int)
    whole: defaultdict[str | None, list[Path]] = defaultdict(list)
    damaged = []
    for path in segments:
        notes, host = Notes(), _host(path)
        if _is_whole(path, notes, advanced):
            whole[host].append(path)
            lost[host] += notes.lost_events
        else:
            damaged.append(path)
    files, events, before = [], 0, 0
    for host, paths in whole.items():
        names = tuple(path.name for path in paths)
        about = partial(About, host=host, lost_events=lost[host], replaces=names)
        files.append(free_path(paths[0].parent, host or "unknown", PARQUET_SUFFIX))
        events += export_parquet(_events(paths, advanced), files[-1], about)
        before += sum(path.stat().st_size for path in paths)
        for path in paths:
            path.unlink(missing_ok=True)
    return Compacted(
        files=tuple(files),
        segments=sum(map(len, whole.values())),
        events=events,
        before_bytes=before,
        after_bytes=sum(path.stat().st_size for path in files),
        damaged=tuple(damaged),
    )


def _host(path: Path) -> str | None:
    with path.open("rb") as file:
        return host_of(file.read(HEAD_BYTES))


def _is_whole(path: Path, notes: Notes, advanced: Callable[[int], None]) -> bool:
    try:
        for _ in Segments().read(path, notes, advanced):
            pass
    except CorruptDataError:
        return False
    return not notes.problems


def _events(paths: Sequence[Path], advanced: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield from Segments().read(path, Notes(), advanced)
