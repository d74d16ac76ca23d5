"""Mel spectra: the same numbers as Whisper's, librosa's and torchaudio's, within rounding.

Computed in float64 by operations of one order, and rounded to float32 at the end, so that what
hosts differ in is rounded away. Products of matrices and NumPy's logarithm are avoided for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.record import AnyArray
from headrace.transform.exact import cos_pi

Floats: TypeAlias = "npt.NDArray[np.float64]"
MelScale = Literal["slaney", "htk"]

_FRAMES = 256
"""Windows that are transformed at once: their spectra stay in the CPU's cache."""

_HZ_PER_MEL = 200 / 3
_KNEE_HZ = 1000.0
_KNEE_MEL = _KNEE_HZ / _HZ_PER_MEL
_LN_STEP = log(6.4) / 27
"""Slaney's scale: linear up to the knee, then 27 steps for each factor of 6.4."""


@dataclass(frozen=True, slots=True)
class MelBands:
    """Which part of the spectrum each band is made of, and how much of it counts."""

    rate: int
    """Rate of the sound [Hz]."""

    n_fft: int
    n_mels: int
    low: float
    high: float
    """Ends of the lowest and of the highest band [Hz]."""

    scale: MelScale
    is_even: bool
    """All bands have the same area (Slaney's norm), not the same height."""


def mel_power(sound: AnyArray, hop: int, bands: MelBands) -> Floats:
    """Return the power in each band, ``float64 [bands, 1 + samples // hop]``.

    Windows are Hann's, ``n_fft`` long and centred; the sound is reflected at its ends.
    """
    half = bands.n_fft // 2
    padded = np.pad(sound.astype(np.float64), (half, bands.n_fft - half), mode="reflect")
    frames = 1 + len(sound) // hop
    windows = np.lib.stride_tricks.sliding_window_view(padded, bands.n_fft)[::hop][:frames]
    window = _window(bands.n_fft)
    result = np.empty((bands.n_mels, frames))
    for start in range(0, frames, _FRAMES):
        chunk = slice(start, min(start + _FRAMES, frames))
        spectra = np.fft.rfft(windows[chunk] * window, axis=1)
        power = spectra.real * spectra.real + spectra.imag * spectra.imag
        result[:, chunk] = _banded(power.T, bands)
    return result


def _banded(power: Floats, bands: MelBands) -> Floats:
    """Return the bands of spectra ``[bins, frames]``, bin after bin."""
    firsts, weights = _weights(bands)
    total = np.zeros((bands.n_mels, power.shape[1]))
    for number, column in enumerate(weights.T):
        counted = np.flatnonzero(column)
        total[counted] += power[firsts[counted] + number] * column[counted, None]
    return total


@lru_cache(maxsize=8)
def _window(length: int) -> Floats:
    return 0.5 - 0.5 * cos_pi(2 * np.arange(length, dtype=np.float64) / length)


@lru_cache(maxsize=8)
def _weights(bands: MelBands) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return each band's first bin, and the weights from there on, ``[bands, widest]``."""
    triangles = filters(bands)
    firsts = (triangles > 0).argmax(axis=1)
    widest = max(1, int((triangles > 0).sum(axis=1).max()))
    padded = np.pad(triangles, ((0, 0), (0, widest)))
    places = firsts[:, None] + np.arange(widest)
    return firsts, np.take_along_axis(padded, places, axis=1)


def filters(bands: MelBands) -> Floats:
    """Return the weight of each bin of the spectrum in each band, ``[bands, 1 + n_fft // 2]``."""
    bins = np.arange(1 + bands.n_fft // 2) * (bands.rate / bands.n_fft)
    ends = np.linspace(
        _mel(bands.low, bands.scale), _mel(bands.high, bands.scale), bands.n_mels + 2
    )
    edges = np.array([_hertz(end, bands.scale) for end in ends.tolist()])[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    triangles: Floats = np.maximum(0.0, np.minimum(rising, falling))
    if bands.is_even:
        triangles *= 2.0 / (edges[2:] - edges[:-2])
    return triangles


def _mel(hertz: float, scale: MelScale) -> float:
    if scale == "htk":
        return 2595 / log(10) * log(1 + hertz / 700)
    if hertz < _KNEE_HZ:
        return hertz / _HZ_PER_MEL
    return _KNEE_MEL + log(hertz / _KNEE_HZ) / _LN_STEP


def _hertz(mel: float, scale: MelScale) -> float:
    if scale == "htk":
        return 700 * (exp(mel * log(10) / 2595) - 1)
    if mel < _KNEE_MEL:
        return mel * _HZ_PER_MEL
    return _KNEE_HZ * exp((mel - _KNEE_MEL) * _LN_STEP)
