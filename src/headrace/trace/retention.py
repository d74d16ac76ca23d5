"""Keeps a folder of segments below a size, by removing the oldest that nobody writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.trace.importers.segments import count_events
from headrace.trace.segments import SUFFIX, is_growing


@dataclass(frozen=True, slots=True)
class Removed:
    """What went to make room."""

    segments: int
    events: int
    """With those that had gone before."""


def make_room(folder: Path, most_bytes: int) -> Removed:
    """Remove a folder's oldest segments that nobody writes, until the others fit.

    Args:
        folder: Of segments.
        most_bytes: What they may take [bytes].
    """
    found = sorted(_segments(folder))
    total = sum(nbytes for _, nbytes, _ in found)
    segments = events = 0
    for _, nbytes, path in found:
        if total <= most_bytes:
            break
        with suppress(OSError):  # another makes room as well, or it is another user's
            if not is_growing(path):
                went = count_events(path)
                path.unlink()
                events, segments, total = events + went, segments + 1, total - nbytes
    return Removed(segments, events)


def _segments(folder: Path) -> Iterator[tuple[int, int, Path]]:
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):
            state = path.stat()
            yield state.st_mtime_ns, state.st_size, path
