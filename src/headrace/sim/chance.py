"""Chance events that are the same for every policy: drawn ahead, by job and count or time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_BLOCK = 1024
STEPS, LATENCIES, EXTENTS = range(3)
"""Purposes: each has numbers of its own."""

_SHORTEST = 0.5


class Normals:
    """Standard normal numbers of one job for one purpose; the n-th is the same in all runs."""

    def __init__(self, *, seed: int, purpose: int, job: int) -> None:
        self._generator = np.random.default_rng((seed, purpose, job))
        self._ahead: list[float] = []

    def draw(self) -> float:
        """Return the next one."""
        if not self._ahead:
            self._ahead = self._generator.standard_normal(_BLOCK).tolist()
        return self._ahead.pop()


class Scatter:
    """Standard normal numbers, one for each job at a time, in a sequence that all runs share."""

    def __init__(self, jobs: int, *, seed: int, purpose: int) -> None:
        self._generator = np.random.default_rng((seed, purpose))
        self._jobs = jobs
        self._block = np.empty((0, jobs))
        self._at = 0

    def draw(self) -> npt.NDArray[np.float64]:
        """Return the next ones, ``[jobs]``."""
        if self._at == len(self._block):
            self._block = self._generator.standard_normal((_BLOCK, self._jobs))
            self._at = 0
        self._at += 1
        numbers: npt.NDArray[np.float64] = self._block[self._at - 1]
        return numbers


def step_time(mean_s: float, jitter: float, normal: float) -> float:
    """Return how long one step computes [s], never below half the mean."""
    return mean_s * max(_SHORTEST, 1.0 + jitter * normal)
