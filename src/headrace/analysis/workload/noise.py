"""Random numbers for ranks and steps, whatever part of them is made when, and by whom.

A number depends on (seed, stream, rank, step) alone, as those of :mod:`headrace.core.draws` do on
a sample: so a trace of fewer ranks is part of that of more, and blocks can be of any size. These
are made of SplitMix64's mixing function, which works on whole arrays.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from headrace.analysis.columns import Floats, Ints
from headrace.analysis.workload.normal import normal_scores

Words = npt.NDArray[np.uint64]

_RANK = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1B54A32D192ED03)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


class Noise:
    """All random numbers of one synthetic trace."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def uniforms(self, stream: str, steps: Ints, ranks: Ints) -> Floats:
        """Return numbers in (0, 1), [steps, ranks], that no other stream shares."""
        name = blake2b(f"{self._seed}/{stream}".encode(), digest_size=8, person=b"headrace-noise")
        key = np.array([int.from_bytes(name.digest(), "little")], np.uint64)
        of_ranks = _mixed(key + ranks.astype(np.uint64) * _RANK)
        words = _mixed(of_ranks[None, :] + steps.astype(np.uint64)[:, None] * _STEP)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * _TO_UNIT

    def normals(self, stream: str, steps: Ints, ranks: Ints) -> Floats:
        """Return normal scores, [steps, ranks]."""
        return normal_scores(self.uniforms(stream, steps, ranks))


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
