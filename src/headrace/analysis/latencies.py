"""How long requests take: at least, and typically."""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import Floats, Ints

_PER_OCTAVE = 8
_DURATIONS = 36 * _PER_OCTAVE
"""From 1 ns · 2^10 to 20 hours in steps of 9 %."""

_SHORTEST_S = 2.0**10 * 1e-9
_SIZES = 48
_SLOW = 0.25
"""Requests faster than this part of the median, weighed by time, came out of a cache."""

_LEAST = 0.01
"""Share of the slow ones below which their durations are taken for those without a queue."""


class Latencies:
    """Counts of requests by size class and duration class; fixed memory."""

    def __init__(self) -> None:
        self._counts: Ints = np.zeros((_SIZES, _DURATIONS), np.int64)

    def add(self, durations_s: Floats, nbytes: Ints) -> None:
        """Take in requests; a size that is not known is below 0."""
        sizes = np.log2(np.maximum(nbytes, 1)).astype(np.int64)
        octaves = np.log2(np.maximum(durations_s, _SHORTEST_S) / _SHORTEST_S)
        places = np.minimum((octaves * _PER_OCTAVE).astype(np.int64), _DURATIONS - 1)
        flat = np.minimum(sizes, _SIZES - 1) * _DURATIONS + places
        counts = np.bincount(flat, minlength=_SIZES * _DURATIONS)
        self._counts += counts.reshape(_SIZES, _DURATIONS)

    def least_s(self) -> float | None:
        """Return what a request takes at least, apart from those that a cache answered [s]."""
        counts = self._counts.sum(axis=0)
        times = counts * _MIDDLES_S
        if not counts.any():
            return None
        typical_s = _MIDDLES_S[np.searchsorted(np.cumsum(times), 0.5 * times.sum())]
        slow = np.where(_SLOW * typical_s <= _MIDDLES_S, counts, 0)
        place = np.searchsorted(np.cumsum(slow), _LEAST * slow.sum())
        return float(_MIDDLES_S[place])

    def typical_s(self) -> float | None:
        """Return the median duration, each request weighed by its duration [s]."""
        times = self._counts.sum(axis=0) * _MIDDLES_S
        if not times.any():
            return None
        return float(_MIDDLES_S[np.searchsorted(np.cumsum(times), 0.5 * times.sum())])


_MIDDLES_S = _SHORTEST_S * 2.0 ** ((np.arange(_DURATIONS) + 0.5) / _PER_OCTAVE)
