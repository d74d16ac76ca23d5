"""Shuffles inside short runs of positions: what keeps a reader's or a mixture's order local."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from headrace.core.mixing import Words
from headrace.schedule.permutation import Permutation

Direction = Literal["forward", "inverse"]


class RunShuffle:
    """Shuffles the offsets inside runs; the few lengths that runs can have are known before."""

    def __init__(self, lengths: Iterable[int], key: bytes) -> None:
        self._by_length = {length: Permutation(length, key) for length in lengths if length}

    def apply(self, direction: Direction, offsets: Words, *, lengths: Words, runs: Words) -> Words:
        """Return where each offset goes (or, ``inverse``, came from) inside its own run.

        Args:
            direction: Which way.
            offsets: Offset inside the run, below its length, ``uint64 [N]``.
            lengths: The run's length, one of those announced, ``uint64 [N]``.
            runs: Any word that names the run; equal names shuffle alike, ``uint64 [N]``.
        """
        result = np.empty_like(offsets)
        for length, permutation in self._by_length.items():
            chosen = np.flatnonzero(lengths == np.uint64(length))
            if chosen.size:
                permute = permutation.forward if direction == "forward" else permutation.inverse
                result[chosen] = permute(offsets[chosen], runs[chosen])
        return result


class LocalShuffle:
    """Shuffles each epoch's positions inside consecutive runs; the last run may be shorter."""

    def __init__(self, epoch_samples: int, key: bytes, *, run: int) -> None:
        whole, rest = divmod(epoch_samples, run)
        self._run, self._whole, self._rest = np.uint64(run), np.uint64(whole), np.uint64(rest)
        self._runs_per_epoch = np.uint64(whole + 1)
        self._shuffle = RunShuffle({run if whole else 0, rest}, key)

    def apply(self, direction: Direction, positions: Words, epochs: Words) -> Words:
        """Return the position inside the epoch that each position is moved to (or came from)."""
        numbers = positions // self._run
        starts = numbers * self._run
        lengths = np.where(numbers < self._whole, self._run, self._rest)
        runs = epochs * self._runs_per_epoch + numbers
        return starts + self._shuffle.apply(
            direction, positions - starts, lengths=lengths, runs=runs
        )
