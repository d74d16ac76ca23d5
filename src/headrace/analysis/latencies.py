"""How long requests take: at least, and typically."""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import Floats, Ints

_PER_OCTAVE = 8
_DURATIONS = 36 * _PER_OCTAVE
"""From 1 µs to 20 hours in steps of 9 %."""

_SHORTEST_S = 2.0**10 * 1e-9
_MIDDLES_S: Floats = _SHORTEST_S * 2.0 ** ((np.arange(_DURATIONS) + 0.5) / _PER_OCTAVE)

_SLOW = 0.25
"""Requests faster than this part of the one in the middle of all time came out of a cache."""

_LEAST = 0.1
"""Share of the slow ones that stays below what a request takes at least."""


class Latencies:
    """Counts requests by how long they took; fixed memory."""

    def __init__(self) -> None:
        self._counts: Ints = np.zeros(_DURATIONS, np.int64)

    def __len__(self) -> int:
        return int(self._counts.sum())

    def add(self, durations_s: Floats) -> None:
        """Take in requests."""
        octaves = np.log2(np.maximum(durations_s, _SHORTEST_S) / _SHORTEST_S)
        places = np.minimum((octaves * _PER_OCTAVE).astype(np.int64), _DURATIONS - 1)
        self._counts += np.bincount(places, minlength=_DURATIONS)

    def merge(self, other: Latencies) -> None:
        """Take in all that another one took in."""
        self._counts += other._counts

    def least_s(self) -> float | None:
        """Return what a request takes at least, apart from those that a cache answered [s]."""
        return _quantile_s(self._slow(), _LEAST)

    def typical_s(self) -> float | None:
        """Return the median duration of these [s]."""
        return _quantile_s(self._slow(), 0.5)

    def median_s(self) -> float | None:
        """Return the median duration of all [s]."""
        return _quantile_s(self._counts, 0.5)

    def _slow(self) -> Ints:
        """Return the counts of those that no cache answered: they make up most of the time."""
        middle_s = _quantile_s(self._counts * _MIDDLES_S, 0.5) or 0.0
        return np.where(_SLOW * middle_s <= _MIDDLES_S, self._counts, 0)


def _quantile_s(weights: Ints | Floats, share: float) -> float | None:
    if not weights.any():
        return None
    return float(_MIDDLES_S[np.searchsorted(np.cumsum(weights), share * weights.sum())])
