"""What takes the place of a sample that cannot be decoded: the same on every host.

A pure function of (seed, epoch, sample, attempt) and the index, so that ranks that
never talk to each other agree, and so does a job that is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.draws import Draws, SampleKey
from headrace.dataset.location import Kind
from headrace.dataset.media import KINDS
from headrace.prepare.job import OpenJob

ATTEMPTS = 16
"""How many replacements of the same kind are tried, and then how many of any kind."""

_POSITION = -1
"""Op position of these draws; real ops count from 0."""


class Substitutes:
    """Draws replacements of the same source, of the same media kind where one can be had.

    Thread-safe. The first question about a source costs one pass over its kinds; nothing is
    computed for a dataset without corrupt samples.
    """

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._alike: dict[tuple[int, Kind], np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def of(self, key: SampleKey) -> Iterator[SampleKey]:
        """Yield at most ``ATTEMPTS`` replacements for a visit of each sort, in order of trial.

        None comes twice, and where there are few, every one comes.
        """
        source = self._job.source_of(key.sample)
        alike = self._samples_like(source, self._job.kind(key.sample))
        everything = self._job.source_range(source)
        draws = Draws(key, _POSITION)
        tried = {key.sample}
        for candidates in (alike, range(len(everything))):
            for position in _positions(draws, len(candidates)):
                sample = everything.start + int(candidates[position])
                if sample not in tried:
                    tried.add(sample)
                    yield SampleKey(seed=key.seed, epoch=key.epoch, sample=sample)

    def _samples_like(self, source: int, kind: Kind) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        found = self._alike.get((source, kind))
        if found is None:
            index = self._job.sources[source].index
            found = np.flatnonzero(index.kinds == KINDS.index(kind))
            self._alike[source, kind] = found
        return found


def _positions(draws: Draws, count: int) -> Iterator[int]:
    """Yield drawn positions, then those that may have been missed, if they are few."""
    for _ in range(ATTEMPTS):
        yield draws.integer(count)
    if count <= ATTEMPTS:
        yield from range(count)
