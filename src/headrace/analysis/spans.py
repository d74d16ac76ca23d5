"""From when to when each rank was there, and how many events it has."""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import Columns, Ints
from headrace.analysis.spreads import NS_PER_S

_EMPTY = np.empty(0, np.int64)


class Spans:
    """First moment, last moment and number of events of each place."""

    def __init__(self) -> None:
        self.places: Ints = _EMPTY
        self._first: Ints = _EMPTY
        self._last: Ints = _EMPTY
        self._events: Ints = _EMPTY

    def add(self, columns: Columns) -> None:
        """Take in events."""
        if len(columns):
            ones = np.ones(len(columns), np.int64)
            self._take(columns.places, columns.begins, columns.ends, ones)

    def merge(self, other: Spans) -> None:
        """Take in all that another one took in."""
        self._take(other.places, other._first, other._last, other._events)

    @property
    def events(self) -> int:
        """Of all places."""
        return int(self._events.sum())

    @property
    def most_events(self) -> int:
        """Of the place that has most; 0 where there is none."""
        return int(self._events.max(initial=0))

    @property
    def begin_ns(self) -> int:
        """Of the first event [ns]; 0 where there is none."""
        return int(self._first.min()) if self._first.size else 0

    @property
    def end_ns(self) -> int:
        """Of the last event [ns]; 0 where there is none."""
        return int(self._last.max()) if self._last.size else 0

    @property
    def span_s(self) -> float:
        """From the first event to the end of the last [s]."""
        return (self.end_ns - self.begin_ns) / NS_PER_S

    @property
    def mean_s(self) -> float:
        """From the first event of a rank to the end of its last, mean over ranks [s]."""
        if not self.places.size:
            return 0.0
        lengths = (self._last - self._first).astype(np.float64)
        return float(lengths[self._known].mean()) / NS_PER_S

    def seconds_of(self, places: Ints) -> float:
        """Return the time from the first event of each of some places to its last, summed [s]."""
        rows = np.isin(self.places, places)
        return float((self._last[rows] - self._first[rows]).sum(dtype=np.float64)) / NS_PER_S

    @property
    def ranks(self) -> int:
        """Ranks that are known."""
        return int((self.places >= 0).sum())

    @property
    def _known(self) -> Ints:
        """Rows of ranks; of all places where no rank is known."""
        ranks = np.flatnonzero(self.places >= 0)
        return ranks if ranks.size else np.arange(self.places.size)

    def _take(self, places: Ints, first: Ints, last: Ints, events: Ints) -> None:
        all_places = np.concatenate((self.places, places))
        all_first = np.concatenate((self._first, first))
        all_last = np.concatenate((self._last, last))
        all_events = np.concatenate((self._events, events))
        self.places, row = np.unique(all_places, return_inverse=True)
        self._first = np.full(self.places.size, np.iinfo(np.int64).max)
        self._last = np.full(self.places.size, np.iinfo(np.int64).min)
        np.minimum.at(self._first, row, all_first)
        np.maximum.at(self._last, row, all_last)
        self._events = np.bincount(row, weights=all_events).astype(np.int64)
