"""Stretches of time, united for each of many keys: a rank, a process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.analysis.columns import Floats, Ints, Mask
from headrace.analysis.spreads import NS_PER_S

MOST_STRETCHES = 1_048_576
"""Kept of one union; beyond, the shortest gaps are closed."""

_PENDING = 262_144
_NEVER_NS = 2**60
"""Longer than any trace."""


class Stretches(NamedTuple):
    """Sorted by key and time; those of one key do not touch each other."""

    keys: Ints
    begins: Ints
    ends: Ints

    def seconds(self) -> float:
        """Return how long they are together [s]."""
        return float((self.ends - self.begins).sum(dtype=np.float64)) / NS_PER_S

    def seconds_of(self, keys: Ints) -> Floats:
        """Return how long those of each key are together [s]; all keys are among ``keys``."""
        row = np.searchsorted(keys, self.keys)
        lengths = (self.ends - self.begins).astype(np.float64)
        return np.bincount(row, weights=lengths, minlength=keys.size) / NS_PER_S

    def moments_within(self, keys: Ints, moments: Ints) -> Ints:
        """Count for each the moments of its key that lie within, its ends left out."""
        everything = np.concatenate((self.begins, self.ends, moments))
        of_keys = np.concatenate((self.keys, self.keys, keys))
        kinds = np.repeat((2, 0, 1), (self.keys.size, self.keys.size, keys.size))
        order = np.lexsort((kinds, everything, of_keys))
        so_far = np.empty(order.size, np.int64)
        so_far[order] = np.cumsum(kinds[order] == 1)
        counts: Ints = so_far[self.keys.size : 2 * self.keys.size] - so_far[: self.keys.size]
        return counts

    def where(self, mask: Mask) -> Stretches:
        """Return those for which the mask is true."""
        return Stretches(self.keys[mask], self.begins[mask], self.ends[mask])

    def split(self, keys: Ints, moments: Ints) -> tuple[Stretches, Stretches]:
        """Return what lies before and after a moment of each key; all keys are among ``keys``."""
        cuts = moments[np.searchsorted(keys, self.keys)]
        before, after = self.where(self.begins < cuts), self.where(self.ends > cuts)
        return (
            before._replace(ends=np.minimum(before.ends, cuts[self.begins < cuts])),
            after._replace(begins=np.maximum(after.begins, cuts[self.ends > cuts])),
        )

    def of(self, key: int) -> Stretches:
        """Return those of one key."""
        rows = slice(*np.searchsorted(self.keys, (key, key + 1)).tolist())
        return Stretches(self.keys[rows], self.begins[rows], self.ends[rows])

    def of_any(self, keys: Ints) -> Stretches:
        """Return those of some keys."""
        kept = np.isin(self.keys, keys)
        return Stretches(self.keys[kept], self.begins[kept], self.ends[kept])


NONE = Stretches(*(np.empty(0, np.int64) for _ in range(3)))


def united(*parts: Stretches, gap_ns: int = 0) -> Stretches:
    """Return the union, in which stretches that are no more than ``gap_ns`` apart are one."""
    keys, begins, ends = (
        np.concatenate([part[place] for part in parts]) if parts else np.empty(0, np.int64)
        for place in range(3)
    )
    if not keys.size:
        return NONE
    order = np.lexsort((begins, keys))
    keys, begins, ends = keys[order], begins[order], ends[order]
    reached = latest_so_far(keys, ends)
    is_first = np.ones(keys.size, np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]) | (begins[1:] - gap_ns > reached[:-1])
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], keys.size) - 1
    return Stretches(keys[firsts], begins[firsts], reached[lasts])


def latest_so_far(keys: Ints, ends: Ints) -> Ints:
    """Return the latest end among the rows of a key up to each; keys are sorted."""
    by_end = np.argsort(ends, kind="stable")
    standing = np.empty(ends.size, np.int64)
    standing[by_end] = np.arange(ends.size)
    group = np.cumsum(np.append(0, keys[1:] != keys[:-1]))
    best = np.maximum.accumulate(group * ends.size + standing) - group * ends.size
    latest: Ints = ends[by_end[best]]
    return latest


class Union:
    """Grows by batches; its memory does not: where there are too many, short gaps are closed."""

    def __init__(self, most: int = MOST_STRETCHES) -> None:
        self.closed_s = 0.0
        """Length of the gaps that were closed: so much too long the union may be [s]."""

        self._most = most
        self._whole = NONE
        self._pending: list[Stretches] = []
        self._pending_rows = 0

    def add(self, keys: Ints, begins: Ints, ends: Ints) -> None:
        """Take in stretches."""
        if not keys.size:
            return
        self._pending.append(Stretches(keys, begins, ends))
        self._pending_rows += keys.size
        if self._pending_rows >= max(_PENDING, self._whole.keys.size):
            self.whole()

    def whole(self) -> Stretches:
        """Return the union of all that was taken in."""
        if self._pending:
            self._whole = self._closed(united(self._whole, *self._pending))
            self._pending.clear()
            self._pending_rows = 0
        return self._whole

    def _closed(self, whole: Stretches) -> Stretches:
        """Halve the number of stretches where it is too large."""
        if whole.keys.size <= self._most:
            return whole
        gaps = np.where(
            whole.keys[1:] == whole.keys[:-1],
            whole.begins[1:] - whole.ends[:-1],
            _NEVER_NS,
        )
        last = whole.keys.size - self._most // 2 - 1
        widest = int(np.partition(gaps, last)[last])
        before = whole.seconds()
        closed = united(whole, gap_ns=widest)
        self.closed_s += closed.seconds() - before
        return closed
