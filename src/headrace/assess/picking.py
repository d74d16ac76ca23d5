"""Chooses the samples to measure: of each kind, small and large ones alike. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.dataset.index import Index
from headrace.dataset.location import Kind
from headrace.dataset.media import KINDS

STRATA = 16
"""Groups of equally many samples that each kind is divided into by size."""

MOST = 4096
"""Samples of one kind that are measured at most: more would not change the picture."""


@dataclass(frozen=True, slots=True)
class Picked:
    """One sample to measure."""

    kind: Kind
    row: int


def picks(index: Index, *, seed: int = 0) -> Iterator[Picked]:
    """Yield samples, of which any first part is balanced.

    Kinds take turns, and within a kind its strata by size; which sample of a stratum comes is
    drawn. Each sample comes once at most.
    """
    rng = np.random.default_rng(seed)
    turns = [(kind, _in_turns(_by_size(index, kind), rng)) for kind in kinds_in(index)]
    for turn in range(max((len(rows) for _, rows in turns), default=0)):
        for kind, rows in turns:
            if turn < len(rows):
                yield Picked(kind, int(rows[turn]))


def kinds_in(index: Index) -> list[Kind]:
    """Return the kinds of samples that there are, in the order in which they take turns."""
    return [KINDS[code] for code in np.unique(index.kinds).tolist()]


def _by_size(index: Index, kind: Kind) -> npt.NDArray[np.int64]:
    """Return the rows of one kind, the smallest first."""
    rows = np.flatnonzero(index.kinds == KINDS.index(kind))
    return rows[np.argsort(index.lengths[rows], kind="stable")]


def _in_turns(by_size: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return rows so that each stratum has one among the first, and then each a second one."""
    strata = [rng.permutation(stratum) for stratum in np.array_split(by_size, STRATA)]
    order = rng.permutation(STRATA)
    longest = min(max(len(stratum) for stratum in strata), MOST // STRATA)
    rounds = [
        [strata[place][turn] for place in order if turn < len(strata[place])]
        for turn in range(longest)
    ]
    return np.array([row for turn in rounds for row in turn], np.int64)
