"""Sums by name and slot of time, where nobody knows beforehand how long the trace is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import Ints, Mask
from headrace.analysis.named import MOST_NAMES, Fold, NamedSums

MOST_SLOTS = 240
"""That are kept apart; where time goes on, each takes in its neighbour."""

_FIRST_SHIFT = 20
_NEVER = (2**63 - 1, -(2**63))


class SlotSums:
    """Adds up columns of numbers by the values of other columns and by slot of time."""

    def __init__(
        self, keys: Sequence[str], folds: Mapping[str, Fold], most: int = MOST_NAMES
    ) -> None:
        self._keys = (*keys, "slot")
        self._folds = folds
        self._most = most
        self._sums = NamedSums(self._keys, folds, most)
        self._shift = _FIRST_SHIFT
        self._first, self._last = _NEVER

    @property
    def given_up(self) -> int:
        """Groups that memory had no room for."""
        return self._sums.given_up

    @property
    def width_ns(self) -> int:
        """Length of a slot; slot ``n`` begins at ``n`` times that [ns]."""
        return 1 << self._shift

    def cover(self, first_ns: int, last_ns: int) -> None:
        """Make slots so long that there are few of them in all of the time seen so far."""
        self._first, self._last = min(first_ns, self._first), max(last_ns, self._last)
        wider = 0
        while self._slots(self._shift + wider) > MOST_SLOTS:
            wider += 1
        if wider:
            self._shift += wider
            self._widen(wider)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Take in rows with their ``slot``, as the width is now."""
        self._sums.add(columns)

    def table(self) -> pa.Table | None:
        """Return keys, slot and figures, one row a group; None where nothing was taken in."""
        return self._sums.table()

    def slots_of(self, moments_ns: Ints) -> Ints:
        """Return the slot of each moment."""
        slots: Ints = moments_ns >> self._shift
        return slots

    def _slots(self, shift: int) -> int:
        return (self._last >> shift) - (self._first >> shift) + 1

    def keep(self, column: str, wanted: Callable[[Ints], Mask]) -> None:
        """Forget the groups whose value in a column of whole numbers is not wanted."""
        table = self._sums.table()
        if table is not None:
            self._replace(table.filter(pa.array(wanted(table[column].to_numpy()))))

    def _widen(self, wider: int) -> None:
        table = self._sums.table()
        if table is not None:
            slots = pa.array(np.right_shift(table["slot"].to_numpy(), wider))
            self._replace(table.set_column(table.column_names.index("slot"), "slot", slots))

    def _replace(self, table: pa.Table) -> None:
        given_up = self._sums.given_up
        self._sums = NamedSums(self._keys, self._folds, self._most)
        self._sums.given_up = given_up
        self._sums.add({name: table[name] for name in table.column_names})
