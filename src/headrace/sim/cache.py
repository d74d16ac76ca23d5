"""The fast tier as a cache over the slow one, as a fluid that keeps its history.

Each job reads its dataset once an epoch, in an order that is new each time. An epoch is cut into
bins by position; for each bin the cache knows how many of the bytes that will be read there it
holds: for the rest of this epoch, and for the next one. What is read now is wanted again at a
place of the next epoch that is anywhere with equal chance, as the schedule's shuffle has it.

Two rules decide what goes when there is no room. A *page cache* takes in everything, scans too,
and drops all alike; once a scan is over, what it left behind is the oldest and goes first. The
*clairvoyant* one drops what is used furthest in the future, whosever it is, and takes in nothing
that is not used again: the rule of ``policy.nextuse``, on bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 48
"""Parts of an epoch."""


class Cache:
    """What the fast tier holds of each job's dataset. Arrays are ``[jobs]``."""

    def __init__(
        self,
        *,
        room: float,
        epoch_bytes: Floats,
        epoch_s: Floats,
        warm: Floats,
        uses: npt.NDArray[np.bool_],
        clairvoyant: bool,
    ) -> None:
        """Begin with a part ``warm`` of the datasets of those jobs that use the cache.

        Args:
            room: What it holds at most [bytes].
            epoch_bytes: Bytes of each job's dataset.
            epoch_s: How long each job takes for an epoch, waiting left out [s].
            warm: Part of each dataset that it holds now, 0 to 1; scaled down if there is no room.
            uses: Which jobs read through it.
            clairvoyant: Which of the two rules it follows.
        """
        self._room, self._clairvoyant, self._uses = room, clairvoyant, uses
        self._bin_bytes = epoch_bytes / BINS
        self._epoch_s = epoch_s
        self._position = np.zeros(epoch_bytes.size)
        """Of each job in its epoch, in bins."""
        self._held = np.zeros((2, epoch_bytes.size, BINS))
        """Bytes held for this epoch and for the next, by where they will be read."""
        self._held[0] = (self._bin_bytes * warm * uses)[:, None]
        self._scanned = 0.0
        self._shrink()

    @property
    def held_bytes(self) -> Floats:
        """Bytes held of each job's dataset."""
        total: Floats = self._held.sum(axis=(0, 2))
        return total

    @property
    def scanned_bytes(self) -> float:
        """Bytes held of what was read once only."""
        return self._scanned

    def hit_rates(self) -> Floats:
        """Return which part of what each job reads now is held, 0 to 1."""
        numbers = self._position.astype(np.intp)
        rest = (numbers + 1 - self._position) * self._bin_bytes
        held = self._held[0, np.arange(numbers.size), numbers]
        rates: Floats = np.clip(held / np.maximum(rest, 1e-6 * self._bin_bytes), 0.0, 1.0)
        return rates

    def advance(self, read: Floats, *, scanned: float = 0.0) -> None:
        """Take in what the jobs and a scan read since the last call [bytes]."""
        read = read * self._uses
        self._held[1] += (read / BINS)[:, None]
        begun = self._position
        self._position = begun + read / self._bin_bytes
        self._use_up(begun)
        for job in np.flatnonzero(self._position.astype(np.intp) > begun.astype(np.intp)).tolist():
            self._cross(job, int(begun[job]))
        if not self._clairvoyant:
            self._scanned += scanned
            if scanned <= 0.0:
                self._reclaim_scanned()
        self._shrink()

    def forget(self, job: int, part: float) -> None:
        """Lose a part of what is held for one job; a clairvoyant cache is not the job's to lose."""
        if not self._clairvoyant:
            self._held[:, job] *= 1.0 - part

    def _use_up(self, begun: Floats) -> None:
        """What was read of the bins that jobs are in is not wanted again in this epoch."""
        numbers = begun.astype(np.intp)
        rest = np.maximum(numbers + 1 - self._position, 0.0) / (numbers + 1 - begun)
        self._held[0, np.arange(numbers.size), numbers] *= rest

    def _cross(self, job: int, number: int) -> None:
        """Leave bins behind, and begin the next epoch behind the last one."""
        reached = int(self._position[job])
        self._held[0, job, number : min(reached, BINS)] = 0.0
        if reached >= BINS:
            self._held[0, job] = np.minimum(self._held[1, job], self._bin_bytes[job])
            self._held[1, job] = 0.0
            self._position[job] %= BINS
            reached = int(self._position[job])
            self._held[0, job, :reached] = 0.0
        self._held[0, job, reached] *= reached + 1 - self._position[job]

    def _reclaim_scanned(self) -> None:
        excess = float(self._held.sum()) + self._scanned - self._room
        self._scanned -= min(self._scanned, max(0.0, excess))

    def _shrink(self) -> None:
        total = float(self._held.sum()) + self._scanned
        if total <= self._room:
            return
        if self._clairvoyant:
            self._drop_furthest(total - self._room)
            return
        self._held *= self._room / total
        self._scanned *= self._room / total

    def _drop_furthest(self, excess: float) -> None:
        epochs_away = np.arange(2)[:, None, None] + (np.arange(BINS) + 0.5) / BINS
        away = (epochs_away - (self._position / BINS)[:, None]) * self._epoch_s[:, None]
        order = np.argsort(-away, axis=None, kind="stable")
        held = self._held.reshape(-1)
        running = np.cumsum(held[order])
        whole = int(np.searchsorted(running, excess))
        gone = float(running[whole - 1]) if whole else 0.0
        held[order[:whole]] = 0.0
        if whole < order.size:
            held[order[whole]] = max(0.0, held[order[whole]] - (excess - gone))
