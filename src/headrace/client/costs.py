"""What samples take by what was measured of others, here and by agents. Thread-safe."""

from __future__ import annotations

import threading

from headrace.client.shares import Piece
from headrace.policy.estimate import Estimates
from headrace.prepare.job import OpenJob

HEAVY_S = 0.01
"""What is foreseen to take less is never late because it takes long: headers are right enough."""


class Costs:
    """One loader's estimates of its heavy samples."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._estimates = Estimates()

    def seconds(self, piece: Piece) -> float:
        """Return how long a piece will take, read and transformed [s]."""
        if piece.cost_s < HEAVY_S:
            return piece.cost_s
        with self._lock:
            return self._estimates.cost_s(self._job.kind(piece.key.sample), piece.cost_s)

    def ratio(self, kind: str) -> float | None:
        """Return what heavy samples of a kind lately took, over what headers told; None: none."""
        with self._lock:
            return self._estimates.ratio(kind)

    def learn(self, sample: int, *, foreseen_s: float, seconds: float) -> None:
        """Take in how long a sample, or a part of it, took [s]."""
        if foreseen_s < HEAVY_S:
            return
        kind = self._job.kind(sample)
        with self._lock:
            self._estimates.learn(kind, foreseen_s=foreseen_s, seconds=seconds)
