"""What a global batch is made of when costly samples are made in parts: pure, for both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.parts import WHOLE, SamplePart
from headrace.prepare.job import OpenJob

_PART_BITS = 48
"""Samples have smaller numbers: what lies above tells parts apart where they are placed."""

Ints: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Pieces:
    """Samples and parts of samples, each by itself; a sample's parts follow one another."""

    samples: Ints
    """Sample of each, ``int64 [N]``."""

    epochs: Ints
    numbers: Ints
    """Number of the part, 0 of a whole."""

    counts: Ints
    """Parts of its sample."""

    costs: npt.NDArray[np.float64]
    """Estimated CPU to prepare each [s]."""

    @property
    def names(self) -> Ints:
        """Return numbers to place pieces by: those of whole samples are the samples' own."""
        return self.samples | (self.numbers << _PART_BITS)

    def part(self, place: int) -> SamplePart:
        """Return which part of its sample a piece is."""
        count = int(self.counts[place])
        return WHOLE if count == 1 else SamplePart(int(self.numbers[place]), count)


def name_of(sample: int, part: SamplePart) -> int:
    """Return the number that a piece is placed by."""
    return sample | (part.number << _PART_BITS)


def pieces_of(job: OpenJob, samples: Ints, epochs: Ints, cuts: Mapping[str, int]) -> Pieces:
    """Return the pieces of some visits.

    Args:
        job: Theirs.
        samples: Global sample ids, ``[N]``.
        epochs: Epoch of each.
        cuts: Media kind → number of leading ops that are run on pieces.
    """
    counts = job.part_counts(samples, cuts)
    costs = job.costs(samples) / counts
    if counts.max(initial=1) == 1:
        return Pieces(samples, epochs, np.zeros_like(counts), counts, costs)
    rows = np.repeat(np.arange(samples.size), counts)
    begins = np.repeat(np.cumsum(counts) - counts, counts)
    numbers = np.arange(rows.size) - begins
    return Pieces(samples[rows], epochs[rows], numbers, counts[rows], costs[rows])
