"""Reads and saves of checkpoints: time of each rank, and what ranks wait for the slowest.

A rank's events of one step are of one save. Those that name no step are of one where the pause
between them is no longer than the longer of both. Then the first of each rank belong together,
and the second, and so on, if all ranks have equally many; else those do that overlap in time.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.analysis.columns import NULL, Columns, Floats, Ints
from headrace.analysis.figures import Checkpoints
from headrace.analysis.spreads import NS_PER_S, SpreadSketch
from headrace.analysis.stretches import Stretches, latest_so_far, united

JOINED_NS = 100_000_000
"""Events of a rank that are no further apart are of one load or save, however short [ns]."""

MOST_PAUSE_NS = 10_000_000_000
"""Events of a rank that are further apart are not, however long [ns]."""

MOST_FILES = 100
"""Checkpoints whose requests are looked for by name."""

_PENDING = 65_536
_SUMMED = ("bytes", "sized", "requests", "requested")
"""Bytes of all events; events that tell them; requests of those that tell both; their bytes."""

_GROUP = np.dtype(
    [(name, np.int64) for name in ("place", "step", "begin", "end", *_SUMMED)]  # times in ns
)
_Groups: TypeAlias = npt.NDArray[np.void]


class CheckpointSums:
    """Adds up checkpoint events of one kind."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        """What was read or saved, up to :data:`MOST_FILES`."""

        self._events = 0
        self._groups: list[_Groups] = []
        self._pending = 0

    def add(self, events: Columns) -> None:
        """Take in events of reads, or of saves."""
        self._events += len(events)
        self._note_files(events)
        timed = events.timed()
        if not len(timed):
            return
        self._groups.append(_rows(timed))
        self._pending += len(timed)
        if self._pending >= _PENDING:
            self._joined()

    def result(self) -> Checkpoints | None:
        """Return the figures; None where there were no such events of known duration."""
        groups = _joined_by_length(self._joined())
        own_ns = groups["end"] - groups["begin"]
        spread = SpreadSketch()
        spread.add(own_ns)
        per_rank_s = spread.result(NS_PER_S)
        if per_rank_s is None:
            return None
        occasions = _occasions(groups)
        is_alone = np.unique(groups["place"]).size == 1
        requests = int(groups["requests"].sum())
        return Checkpoints(
            events=self._events,
            occasions=int(occasions.max()) + 1,
            per_rank_s=per_rank_s,
            slowest_rank=None if is_alone else _slowest_rank(groups["place"], own_ns),
            barrier_s=None if is_alone else _barrier_s(occasions, own_ns),
            bytes=int(groups["bytes"].sum()) if groups["sized"].any() else None,
            mean_request_bytes=int(groups["requested"].sum()) / requests if requests else None,
        )

    def _note_files(self, events: Columns) -> None:
        if len(self.files) < MOST_FILES:
            names = pc.unique(events.strings("file")).drop_null()
            self.files.update(names[: MOST_FILES - len(self.files)].to_pylist())

    def _joined(self) -> _Groups:
        """Return one row for each rank's load or save."""
        whole = np.concatenate([np.empty(0, _GROUP), *self._groups])
        self._groups = [_joined(whole, JOINED_NS)]
        self._pending = 0
        return self._groups[0]


def _rows(events: Columns) -> _Groups:
    sizes = events.numbers("bytes")
    counts = np.maximum(events.counts("requests"), events.numbers("count"))
    is_counted = (sizes >= 0) & (counts > 0)
    rows = np.empty(len(events), _GROUP)
    rows["place"] = events.places
    rows["step"] = np.maximum(events.numbers("step"), NULL)
    rows["begin"] = events.begins
    rows["end"] = events.ends
    rows["bytes"] = np.maximum(sizes, 0)
    rows["sized"] = sizes >= 0
    rows["requests"] = np.where(is_counted, counts, 0)
    rows["requested"] = np.where(is_counted, sizes, 0)
    return rows


def _joined_by_length(groups: _Groups) -> _Groups:
    """Join what is no further apart than it is long; the result depends on no order."""
    if not groups.size:
        return groups
    lengths = groups["end"] - groups["begin"]
    return _joined(groups, np.maximum(lengths[1:], lengths[:-1]).clip(JOINED_NS, MOST_PAUSE_NS))


def _joined(rows: _Groups, pause_ns: int | Ints) -> _Groups:
    """Return one row for all of a place that name the same step, or are not further apart.

    Args:
        rows: In any order; in that of the result where there is a pause for each.
        pause_ns: Between rows that are joined at most, one for all or for each two [ns].
    """
    if not rows.size:
        return rows
    rows = rows[np.lexsort((rows["begin"], rows["step"], rows["place"]))]
    is_other = np.ones(rows.size, np.bool_)
    is_other[1:] = (rows["place"][1:] != rows["place"][:-1]) | (
        rows["step"][1:] != rows["step"][:-1]
    )
    reached = latest_so_far(np.cumsum(is_other), rows["end"])
    is_late = np.append(False, rows["begin"][1:] - reached[:-1] > pause_ns)
    firsts = np.flatnonzero(is_other | (is_late & (rows["step"] == NULL)))
    joined = rows[firsts]
    joined["end"] = reached[np.append(firsts[1:], rows.size) - 1]
    for name in _SUMMED:
        joined[name] = np.add.reduceat(rows[name], firsts)
    return joined


def _occasions(groups: _Groups) -> Ints:
    """Return the number of the load or save that each row is of, from 0 on."""
    named = groups["step"] != NULL
    numbers = np.empty(groups.size, np.int64)
    steps, numbers[named] = np.unique(groups["step"][named], return_inverse=True)
    numbers[~named] = steps.size + _unnamed_occasions(groups[~named])
    return numbers


def _unnamed_occasions(groups: _Groups) -> Ints:
    """Number rows that name no step; they are sorted by place and time."""
    _, firsts, counts = np.unique(groups["place"], return_index=True, return_counts=True)
    if (counts == counts[:1]).all():
        return np.arange(groups.size) - np.repeat(firsts, counts)
    anywhere = np.zeros(groups.size, np.int64)
    clusters = united(Stretches(anywhere, groups["begin"], groups["end"]), gap_ns=JOINED_NS)
    return np.searchsorted(clusters.begins, groups["begin"], side="right") - 1


def _slowest_rank(places: Ints, own_ns: Ints) -> int | None:
    ranks, row = np.unique(places, return_inverse=True)
    means: Floats = np.bincount(row, weights=own_ns) / np.bincount(row)
    slowest = int(ranks[np.argmax(means)])
    return slowest if slowest >= 0 else None


def _barrier_s(occasions: Ints, own_ns: Ints) -> float:
    slowest = np.zeros(int(occasions.max()) + 1, np.int64)
    np.maximum.at(slowest, occasions, own_ns)
    return float((slowest[occasions] - own_ns).sum(dtype=np.float64)) / NS_PER_S
