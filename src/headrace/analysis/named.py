"""Figures by name, for as many names as memory is meant for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

MOST_NAMES = 65_536
"""Names that are kept; beyond, those with the smallest sums are given up."""


Fold = Literal["sum", "min", "max"]


class NamedSums:
    """Brings columns of numbers together by the values of other columns.

    Where there are more groups than fit, those with the smallest first figure are given up; a
    group that comes again begins anew, so its sums are short by what it lost.
    """

    def __init__(
        self, keys: Sequence[str], folds: Mapping[str, Fold], most: int = MOST_NAMES
    ) -> None:
        self.given_up = 0
        """Groups that were given up."""

        self._keys = tuple(keys)
        self._folds = dict(folds)
        self._most = most
        self._table: pa.Table | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0

    def add(self, columns: Mapping[str, Any]) -> None:
        """Take in rows: arrays of the same length, under the names of keys and figures."""
        rows = pa.table({name: columns[name] for name in (*self._keys, *self._folds)})
        if rows.num_rows:
            self._take(folded(rows, self._keys, self._folds))

    def merge(self, other: NamedSums) -> None:
        """Take in all that another one took in."""
        self.given_up += other.given_up
        table = other.table()
        if table is not None:
            self._take(table)

    def table(self) -> pa.Table | None:
        """Return keys and figures, one row a group; None where nothing was taken in."""
        if self._pending:
            parts = self._pending if self._table is None else [self._table, *self._pending]
            self._table = self._kept(folded(pa.concat_tables(parts), self._keys, self._folds))
            self._pending.clear()
            self._pending_rows = 0
        return self._table

    def _take(self, table: pa.Table) -> None:
        self._pending.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows >= self._most:
            self.table()

    def _kept(self, table: pa.Table) -> pa.Table:
        if table.num_rows <= 2 * self._most:
            return table
        first = next(iter(self._folds))
        order = [(first, "descending"), *((key, "ascending") for key in self._keys)]
        self.given_up += table.num_rows - self._most
        return table.sort_by(order).slice(0, self._most).combine_chunks()


def folded(rows: pa.Table, keys: Sequence[str], folds: Mapping[str, Fold]) -> pa.Table:
    """Return one row for each group of equal keys."""
    grouped = rows.group_by(list(keys), use_threads=False).aggregate(list(folds.items()))
    columns = [*keys, *(f"{name}_{fold}" for name, fold in folds.items())]
    return grouped.select(columns).rename_columns([*keys, *folds])
