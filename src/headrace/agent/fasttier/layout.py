"""Where the samples of one dataset lie, as long reads are planned with."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from headrace.dataset.extents import Extents, extents
from headrace.dataset.index import Index
from headrace.policy.runs import Run, SeekCosts, merged, pieces

PIECE_BYTES = 4 << 20
"""Most bytes of one read, which are in memory at once, unless one sample is longer [bytes]."""

Longs = npt.NDArray[np.int64]


class Layout:
    """One dataset; its rows are numbered as its index has them. Immutable."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def runs(self, rows: Longs, costs: SeekCosts) -> list[Run]:
        """Return the long reads worth making for some rows; ``members`` are places in ``rows``."""
        where = self._where
        return merged(where.files[rows], where.begins[rows], where.ends[rows], costs)

    def pieces(self, run: Run, rows: Longs) -> list[Run]:
        """Return a run of ``runs`` as reads that fit in memory."""
        where = self._where
        return list(pieces(run, where.begins[rows], where.ends[rows], PIECE_BYTES))

    def rows_in(self, piece: Run) -> Longs:
        """Return all rows whose bytes a piece holds as a whole, asked for or not."""
        where = self._where
        first, last = np.searchsorted(where.files, [piece.file, piece.file + 1])
        inside = (where.begins[first:last] >= piece.begin) & (where.ends[first:last] <= piece.end)
        rows: Longs = np.flatnonzero(inside) + first
        return rows

    @cached_property
    def _where(self) -> Extents:
        return extents(self._index)
