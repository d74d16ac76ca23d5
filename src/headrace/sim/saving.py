"""Checkpoints on their way to or from a tier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.sim.episode import CheckpointBurst

Floats = npt.NDArray[np.float64]

MOST_TAKEN = 0.8
"""Part of what a tier gives that checkpoints take at most: the other jobs' streams go on."""


@dataclass(slots=True)
class _Move:
    episode: CheckpointBurst
    tier: int
    begun_s: float
    left: float
    rate: float


class Saving:
    """All checkpoints under way."""

    def __init__(self) -> None:
        self._moves: dict[tuple[str, str], _Move] = {}

    def begin(self, episode: CheckpointBurst, tier: int, now: float, *, obeys: bool) -> None:
        """Begin to move one: as fast as hosts can, or at a steady rate until told another."""
        rate = episode.most_bytes_per_s
        if obeys:
            rate = min(rate, episode.nbytes / episode.deadline_s)
        move = _Move(episode, tier, now, episode.nbytes, rate)
        self._moves[episode.job, episode.burst] = move

    def limit(self, job: str, burst: str, bytes_per_s: float) -> None:
        """Hold one to a rate; one that is done already is not there any more."""
        move = self._moves.get((job, burst))
        if move is not None:
            move.rate = min(bytes_per_s, move.episode.most_bytes_per_s)

    def take(self, capacity: Floats, dt: float) -> Floats:
        """Move for ``dt`` seconds and return what is left of the tiers for reading."""
        if not self._moves:
            return capacity
        left = capacity.copy()
        for move in self._moves.values():
            most = left[move.tier] - (1.0 - MOST_TAKEN) * capacity[move.tier]
            rate = max(0.0, min(move.rate, most, move.left / dt))
            move.left -= rate * dt
            left[move.tier] -= rate
        return left

    def done(self, now: float) -> list[tuple[CheckpointBurst, float]]:
        """Remove and return those that are moved, each with its lateness [s]."""
        ended = [move for move in self._moves.values() if move.left <= 1.0]
        for move in ended:
            del self._moves[move.episode.job, move.episode.burst]
        return [
            (move.episode, max(0.0, now - move.begun_s - move.episode.deadline_s)) for move in ended
        ]
