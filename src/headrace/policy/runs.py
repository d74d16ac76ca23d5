"""Which scattered reads of a file are better made as few long ones.

On a medium that seeks, what lies between two samples may be read faster than jumped over.
Pure arithmetic on where samples begin and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeekCosts:
    """What a medium takes for a jump, and for going straight on."""

    seek_s: float = 0.008
    """Time until the first byte of a read that does not continue the last one [s]."""

    bytes_per_s: float = 150e6
    """Rate of a long read [B/s]."""

    least_gain: float = 1.5
    """Reads are merged only if that makes them so many times as fast."""

    def __post_init__(self) -> None:
        if not (self.seek_s >= 0 and self.bytes_per_s > 0 and self.least_gain >= 1):
            raise ConfigError(
                f"seek_s={self.seek_s:g} must be 0 or more, bytes_per_s={self.bytes_per_s:g} above "
                f"0 and least_gain={self.least_gain:g} at least 1"
            )

    @property
    def gap_bytes(self) -> int:
        """Longest gap that is read rather than jumped over [bytes]."""
        return int(self.seek_s * self.bytes_per_s)

    def time_of(self, reads: int, nbytes: int) -> float:
        """Return how long scattered reads take in all [s]."""
        return reads * self.seek_s + nbytes / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Run:
    """One long read."""

    file: int
    begin: int
    end: int
    """First byte behind it."""

    members: tuple[int, ...]
    """Which of the samples that were asked about lie in it, in the order of their bytes."""

    def __len__(self) -> int:
        """Return the bytes that are read, gaps included."""
        return self.end - self.begin


def merged(files: Longs, begins: Longs, ends: Longs, costs: SeekCosts) -> list[Run]:
    """Return the long reads that take less time than the samples they hold, each for itself.

    Samples that lie alone are in none. Nothing is returned where merging would not make those
    that are merged ``least_gain`` times as fast in all.

    Args:
        files: Number of each sample's file, ``[N]``.
        begins: Its first byte, ``[N]``.
        ends: The first byte behind it, ``[N]``.
        costs: Of the medium.
    """
    runs = [run for run in _close_together(files, begins, ends, costs.gap_bytes) if run.members[1:]]
    members = [member for run in runs for member in run.members]
    alone_s = costs.time_of(len(members), int((ends - begins)[members].sum()))
    merged_s = costs.time_of(len(runs), sum(map(len, runs)))
    return runs if alone_s >= costs.least_gain * merged_s else []


def pieces(run: Run, begins: Longs, ends: Longs, most: int) -> Iterator[Run]:
    """Cut a run into reads of at most ``most`` bytes, or of one sample that is longer.

    Args:
        run: Made by ``merged``.
        begins: As there.
        ends: As there.
        most: Bytes that may be held in memory at once.
    """
    part: list[int] = []
    for member in run.members:
        if part and ends[member] - begins[part[0]] > most:
            yield _run(run.file, part, begins, ends)
            part = []
        part.append(member)
    yield _run(run.file, part, begins, ends)


def _close_together(files: Longs, begins: Longs, ends: Longs, gap: int) -> Iterator[Run]:
    order = np.lexsort((ends, begins, files))
    part: list[int] = []
    reached = 0
    for place in order.tolist():
        fits = part and files[place] == files[part[-1]] and begins[place] - reached <= gap
        if part and not fits:
            yield _run(int(files[part[0]]), part, begins, ends)
            part = []
        reached = max(reached, int(ends[place])) if part else int(ends[place])
        part.append(place)
    if part:
        yield _run(int(files[part[0]]), part, begins, ends)


def _run(file: int, part: Sequence[int], begins: Longs, ends: Longs) -> Run:
    members = tuple(part)
    return Run(file, int(begins[members[0]]), int(ends[list(members)].max()), members)
