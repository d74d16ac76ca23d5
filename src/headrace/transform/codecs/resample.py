"""Brings sound to another rate: the same bits on every host, whatever part of it is asked for.

The filter is the one of ``torchaudio.functional.resample``: a sinc of six zero crossings to either
side below a Hann window, cut off at 0.99 of the lower Nyquist frequency. Only additions and
multiplications of whole arrays are used, in one order: a product of matrices, or FFmpeg's
resampler, adds in another order on another CPU.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, gcd
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.transform.exact import cos_pi, sinc

Sound: TypeAlias = "npt.NDArray[np.float32]"
"""``float32 [channels, samples]``."""

_CROSSINGS = 6
_ROLLOFF = 0.99
_CHUNK = 1 << 14
_WEIGHTS = 1 << 19
"""Results that are made at once, so that their sums stay in the CPU's cache; and their weights."""

_TABLES_KEPT = 4


class Resampler:
    """From one rate to another; samples are counted from the beginning of the file on."""

    def __init__(self, own: int, rate: int) -> None:
        """Prepare for a file's own rate and the wanted one [Hz]."""
        common = gcd(own, rate)
        self._own, self._new = own // common, rate // common
        self._reach = 0 if own == rate else _reach(self._own, self._new)

    def length(self, samples: int) -> int:
        """Return how many samples become of so many."""
        return -(-samples * self._new // self._own)

    def needed(self, begin: int, end: int) -> tuple[int, int]:
        """Return which of the file's samples the results from ``begin`` to ``end`` depend on."""
        if not self._reach:
            return begin, end
        first, last = begin * self._own // self._new, (end - 1) * self._own // self._new
        return max(0, first - self._reach), last + self._reach + 2

    def resample(self, sound: Sound, offset: int, begin: int, end: int) -> Sound:
        """Return the results from ``begin`` to ``end``.

        Args:
            sound: All samples that are needed, as far as the file has them.
            offset: Where in the file the first of them lies.
            begin: First result.
            end: Behind the last one.
        """
        if not self._reach:
            return sound[:, begin - offset : end - offset]
        table = _table(self._own, self._new)
        result = np.empty((len(sound), end - begin), np.float32)
        chunk = min(_CHUNK, max(1, _WEIGHTS // len(table)))
        for start in range(begin, end, chunk):
            places = np.arange(start, min(start + chunk, end), dtype=np.int64) * self._own
            taps = table[:, places % self._new]
            firsts = places // self._new - self._reach
            first = int(firsts[0])
            near = _stretch(sound, first - offset, int(firsts[-1]) + len(table) - offset)
            for channel, out in zip(near, result, strict=True):
                _filter(channel, firsts - first, taps, out[start - begin :][: len(places)])
        return result


def _stretch(sound: Sound, begin: int, end: int) -> Sound:
    """Return a stretch of a sound, with silence where the sound has nothing."""
    inside = sound[:, max(0, begin) : max(0, end)]
    before = min(max(0, -begin), end - begin)
    return np.pad(inside, ((0, 0), (before, end - begin - before - inside.shape[1])))


def _reach(own: int, new: int) -> int:
    """Return how many samples the filter reaches to either side."""
    return ceil(_CROSSINGS / _bandwidth(own, new))


def _bandwidth(own: int, new: int) -> float:
    return min(1.0, new / own) * _ROLLOFF


@lru_cache(maxsize=_TABLES_KEPT)
def _table(own: int, new: int) -> npt.NDArray[np.float32]:
    """Return the filter's weights, ``float32 [taps, phases]``."""
    reach, bandwidth = _reach(own, new), _bandwidth(own, new)
    taps = np.arange(-reach, reach + 2, dtype=np.float64)[:, None]
    table = np.empty((len(taps), new), np.float32)
    phases = max(1, _WEIGHTS // len(taps))
    for start in range(0, new, phases):
        part = table[:, start : start + phases]
        times = (taps - np.arange(start, start + part.shape[1]) / new) * bandwidth
        inside = np.clip(times, -_CROSSINGS, _CROSSINGS)
        window = cos_pi(inside / (2 * _CROSSINGS)) ** 2
        part[:] = sinc(inside) * window * bandwidth
    return table


def _filter(
    channel: npt.NDArray[np.float32],
    firsts: npt.NDArray[np.int64],
    taps: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None:
    out[:] = 0
    product = np.empty_like(out)
    for number, weights in enumerate(taps):
        np.take(channel[number:], firsts, out=product, mode="clip")
        np.multiply(product, weights, out=product)
        np.add(out, product, out=out)
