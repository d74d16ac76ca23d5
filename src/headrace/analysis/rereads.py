"""Whether bytes that were read before come faster: what a cache somewhere holds, and loses.

Of a sample of all places in files, every read is kept; a re-read that takes a third of the time
that the first read of the same bytes took, or less, was a hit.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.analysis.columns import NULL, Columns, Floats, Ints
from headrace.analysis.windows import History

MOST_READS = 131_072
"""Kept of one job; beyond, half of the places are left out."""

HIT = 1 / 3
"""Duration of a re-read over that of the first read up to which it was a hit."""

_Hashes: TypeAlias = npt.NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


class HitRates(NamedTuple):
    """Reads of a sample of places by window of a history ``[windows]``."""

    reads: Floats
    hits: Floats


class Rereads:
    """Takes in requests that read; memory does not grow beyond ``MOST_READS``."""

    def __init__(self) -> None:
        self._places: _Hashes = np.empty(0, np.uint64)
        self._begins: Ints = np.empty(0, np.int64)
        self._durations: Ints = np.empty(0, np.int64)
        self._thinned = 0

    def add(self, reads: Columns) -> None:
        """Take in reads with a known duration; those without file and offset tell nothing."""
        reads = reads.where((reads.texts("file").codes != NULL) & (reads.numbers("offset") >= 0))
        codes, files = reads.texts("file")
        if not len(codes):
            return
        places = _mixed(_hashed(files)[codes] ^ reads.numbers("offset").astype(np.uint64) * _STEP)
        kept = self._kept(places)
        self._places = np.concatenate((self._places, places[kept]))
        self._begins = np.concatenate((self._begins, reads.begins[kept]))
        self._durations = np.concatenate((self._durations, reads.durations[kept]))
        while self._places.size > MOST_READS:
            self._thin()

    def hit_rates(self, history: History) -> HitRates | None:
        """Return how many re-reads were hits; None where nothing was read twice."""
        order = np.lexsort((self._begins, self._places))
        places, begins, took = self._places[order], self._begins[order], self._durations[order]
        firsts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))[: places.size]
        is_again = np.ones(places.size, np.bool_)
        is_again[firsts] = False
        if not is_again.any():
            return None
        lengths = np.diff(np.append(firsts, places.size))
        hit = took <= HIT * np.repeat(took[firsts], lengths)
        at_s = (begins + took - history.begin_ns) * 1e-9
        last = len(history.sums) - 1
        windows = np.clip(at_s / history.width_s, 0, last).astype(np.intp)
        reads, hits = (
            np.bincount(windows[which], minlength=last + 1).astype(np.float64)
            for which in (slice(None), is_again & hit)
        )
        return HitRates(reads, hits)

    def _thin(self) -> None:
        self._thinned += 1
        kept = self._kept(self._places)
        self._places = self._places[kept]
        self._begins, self._durations = self._begins[kept], self._durations[kept]

    def _kept(self, places: _Hashes) -> npt.NDArray[np.bool_]:
        kept: npt.NDArray[np.bool_] = places & np.uint64((1 << self._thinned) - 1) == 0
        return kept


def _hashed(texts: pa.StringArray) -> _Hashes:
    """Return a number for each text, the same for the same bytes."""
    texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None or ends[-1] == ends[0]:
        return np.zeros(len(texts), np.uint64)
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    lengths = np.diff(ends)
    within = (np.arange(letters.size) - np.repeat(ends[:-1] - ends[0], lengths)).astype(np.uint64)
    weighed = _mixed(within * _STEP + letters)
    sums = np.append(np.uint64(0), np.cumsum(weighed, dtype=np.uint64))
    hashed: _Hashes = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
    return hashed


def _mixed(values: _Hashes) -> _Hashes:
    """Return numbers whose low bits depend on all bits."""
    values = (values ^ (values >> np.uint64(30))) * _MIX
    mixed: _Hashes = values ^ (values >> np.uint64(31))
    return mixed
