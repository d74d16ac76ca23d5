"""Sums of a job's quantities over windows of time, which widen as the trace grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from headrace.analysis.columns import Floats, Ints

MOST_WINDOWS = 1024
"""Of one job; where a trace is longer, pairs of windows become one."""

_FIRST_SHIFT = 24
"""Windows begin with 2^24 ns: 17 ms."""


class Quantity(IntEnum):
    """What is summed; an event counts in the window in which it ended."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:  # noqa: ARG004
        return count

    WAIT_S = auto()
    """Spread over all windows that an event lasts, as what is of checkpoints and barriers."""

    WAITS = auto()
    LOAD_S = auto()
    LOADS = auto()
    METADATA_S = auto()
    RETRIEVAL_S = auto()
    RETRIEVALS = auto()
    RETRIEVAL_BYTES = auto()
    TRANSFORMATION_S = auto()
    OVERHEAD_S = auto()
    READ_S = auto()
    """Of requests that read."""

    READS = auto()
    READ_BYTES = auto()
    QUEUED_S = auto()
    """Time that requests or retrievals waited for their turn, where they say so."""

    QUEUED_OF_S = auto()
    """Duration of those that say so."""

    CACHED_BYTES = auto()
    CACHED_OF_BYTES = auto()
    """Bytes of those that say what a cache held."""

    CHECKPOINT_READ_S = auto()
    CHECKPOINT_SAVE_S = auto()
    BARRIER_S = auto()
    STARTS = auto()
    """Events of an initialisation."""

    FETCH_S = auto()
    """Of requests to agents, as of those to storage above."""

    FETCHES = auto()
    FETCH_BYTES = auto()
    FETCH_QUEUED_S = auto()
    FETCH_QUEUED_OF_S = auto()
    SAMPLE_LOAD_S = auto()
    """Of loads of single samples, as of those of batches above."""

    SAMPLE_LOADS = auto()


@dataclass(frozen=True, slots=True)
class History:
    """A job's windows from its first to its last."""

    begin_ns: int
    width_s: float
    sums: Floats
    """``[windows, quantities]``"""

    def of(self, quantity: Quantity) -> Floats:
        """Return one quantity ``[windows]``."""
        column: Floats = self.sums[:, quantity]
        return column

    def total(self, quantity: Quantity) -> float:
        """Return its sum over the whole job."""
        return float(self.sums[:, quantity].sum())

    def added(self, terms: Mapping[Quantity, Quantity]) -> History:
        """Return the same with another quantity added to some."""
        sums = self.sums.copy()
        for quantity, term in terms.items():
            sums[:, quantity] += sums[:, term]
        return History(self.begin_ns, self.width_s, sums)

    def coarser(self, factor: int) -> History:
        """Return the same in windows of ``factor`` of these."""
        missing = -len(self.sums) % factor
        padded = np.pad(self.sums, ((0, missing), (0, 0)))
        sums = padded.reshape(-1, factor, padded.shape[1]).sum(axis=1)
        return History(self.begin_ns, self.width_s * factor, sums)


class Windows:
    """Takes in amounts at moments; memory does not grow beyond ``MOST_WINDOWS``."""

    def __init__(self) -> None:
        self._shift = _FIRST_SHIFT
        self._first = 0
        self._sums: Floats = np.zeros((0, len(Quantity)))

    def add(self, at_ns: Ints, amounts: Mapping[Quantity, Floats]) -> None:
        """Add amounts to the windows in which these moments lie."""
        if not at_ns.size:
            return
        self._reach(int(at_ns.min()), int(at_ns.max()))
        windows = (at_ns >> self._shift) - self._first
        for quantity, values in amounts.items():
            sums = np.bincount(windows, weights=values, minlength=len(self._sums))
            self._sums[:, quantity] += sums

    def spread(self, quantity: Quantity, begins: Ints, ends: Ints) -> None:
        """Add to each window how long these stretches last in it [s]."""
        if not begins.size:
            return
        self._reach(int(begins.min()), int(ends.max()))
        edges = (self._first + np.arange(len(self._sums) + 1)) << self._shift
        self._sums[:, quantity] += np.diff(_lasted_s(begins, ends, edges))

    def history(self) -> History:
        """Return what was summed."""
        return History(self._first << self._shift, 1e-9 * 2**self._shift, self._sums)

    def _reach(self, first_ns: int, last_ns: int) -> None:
        """Make room for windows from one moment to another."""
        first, last = first_ns >> self._shift, last_ns >> self._shift
        if len(self._sums):
            first = min(first, self._first)
            last = max(last, self._first + len(self._sums) - 1)
        coarser = 0
        while (last >> coarser) - (first >> coarser) >= MOST_WINDOWS:
            coarser += 1
        self._move(first >> coarser, last >> coarser, coarser)

    def _move(self, first: int, last: int, coarser: int) -> None:
        if coarser == 0 and first == self._first and last - first + 1 == len(self._sums):
            return
        sums = np.zeros((last - first + 1, len(Quantity)))
        places = ((self._first + np.arange(len(self._sums))) >> coarser) - first
        np.add.at(sums, places, self._sums)
        self._sums, self._first, self._shift = sums, first, self._shift + coarser


def _lasted_s(begins: Ints, ends: Ints, edges: Ints) -> Floats:
    """Return how long stretches lasted in all until each edge [s]."""
    return _since_s(begins, edges) - _since_s(ends, edges)


def _since_s(moments: Ints, edges: Ints) -> Floats:
    """Return the sum, at each edge, of the time since all moments before it [s]."""
    ordered = np.sort(moments)
    passed = np.searchsorted(ordered, edges, side="right")
    apart_s = (ordered - ordered[0]) * 1e-9
    sums = np.append(0.0, np.cumsum(apart_s))
    result: Floats = passed * ((edges - ordered[0]) * 1e-9) - sums[passed]
    return result
