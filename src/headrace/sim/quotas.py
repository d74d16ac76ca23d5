"""Quotas as agents and hosts enforce them: in force a little later, with a token bucket's burst."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNLIMITED = 1e18
"""A quota that limits nothing [B/s]."""


class Quotas:
    """Token buckets of all jobs on all tiers. Matrices are ``[jobs, tiers]``."""

    def __init__(self, initial: Floats, *, delay_s: float, burst_s: float) -> None:
        self._rates = initial.copy()
        self._tokens = initial * burst_s
        self._delay_s, self._burst_s = delay_s, burst_s
        self._coming: deque[tuple[float, int, int, float]] = deque()
        self.limited = bool((initial < UNLIMITED).any())
        """Whether anything may be limited at all."""

    @property
    def rates(self) -> Floats:
        """Quotas in force [B/s]; to be read only."""
        return self._rates

    def order(self, job: int, tier: int, bytes_per_s: float, *, now: float) -> None:
        """Let a quota be in force after the delay."""
        self._coming.append((now + self._delay_s, job, tier, bytes_per_s))

    def advance(self, now: float) -> None:
        """Bring into force what is due; changing a rate gains nobody a burst."""
        while self._coming and self._coming[0][0] <= now:
            _, job, tier, rate = self._coming.popleft()
            self._rates[job, tier] = rate
            self._tokens[job, tier] = min(self._tokens[job, tier], rate * self._burst_s)
            self.limited = True

    def most(self, dt: float, read_per_byte: Floats) -> Floats:
        """Return at which mean rate each job may be served for ``dt`` seconds [B/s], ``[jobs]``."""
        allowed = (self._tokens + self._rates * dt) / dt
        rates: Floats = (allowed / np.maximum(read_per_byte, 1e-12)).min(axis=1)
        return rates

    def spend(self, dt: float, read: Floats) -> None:
        """Take what was read [bytes], ``[jobs, tiers]``, after what ``dt`` seconds added."""
        tokens = np.maximum(self._tokens + self._rates * dt - read, 0.0)
        self._tokens = np.minimum(tokens, self._rates * self._burst_s)
