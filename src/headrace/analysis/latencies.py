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
"""Requests faster than this part of the typical one came out of a cache."""

_LEAST = 0.05
"""Share of the slow ones that stays below what a request takes at least."""


class Latencies:
    """Counts requests by how long they took; fixed memory."""

    def __init__(self) -> None:
        self._counts: Ints = np.zeros(_DURATIONS, np.int64)

    def add(self, durations_s: Floats) -> None:
        """Take in requests."""
        octaves = np.log2(np.maximum(durations_s, _SHORTEST_S) / _SHORTEST_S)
        places = np.minimum((octaves * _PER_OCTAVE).astype(np.int64), _DURATIONS - 1)
        self._counts += np.bincount(places, minlength=_DURATIONS)

    def least_s(self) -> float | None:
        """Return what a request takes at least, apart from those that a cache answered [s]."""
        typical_s = self.typical_s()
        if typical_s is None:
            return None
        slow = np.where(_SLOW * typical_s <= _MIDDLES_S, self._counts, 0)
        return float(_MIDDLES_S[np.searchsorted(np.cumsum(slow), _LEAST * slow.sum())])

    def median_s(self) -> float | None:
        """Return the median duration [s]."""
        return self._middle_s(self._counts)

    def typical_s(self) -> float | None:
        """Return the median duration, where each request weighs what it took [s]."""
        return self._middle_s(self._counts * _MIDDLES_S)

    def _middle_s(self, weights: Ints | Floats) -> float | None:
        if not weights.any():
            return None
        return float(_MIDDLES_S[np.searchsorted(np.cumsum(weights), 0.5 * weights.sum())])
