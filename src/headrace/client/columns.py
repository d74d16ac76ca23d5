"""Turns values of many rows into columns: pure, and the only place that decides what stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from headrace.client.batch import Uneven
from headrace.core.numbered import split_number
from headrace.core.record import AnyArray, Record, Value
from headrace.transform.op import Column, Rows


def column_of(values: Sequence[Value]) -> Column:
    """Return an array when all values are numbers or arrays of one shape; else a list.

    Numbers beyond 64 bits, which no array holds, stay a list as well.
    """
    first = values[0]
    if isinstance(first, np.ndarray):
        if all(same_form(value, first) for value in values):
            return np.stack(values)  # type: ignore[arg-type]
        if all(isinstance(value, np.ndarray) for value in values):
            return Uneven(values)
        return list(values)
    with suppress(OverflowError):
        if all(type(value) is int for value in values):
            return np.array(values, dtype=np.int64)
        if all(type(value) in (int, float) for value in values):
            return np.array(values, dtype=np.float64)
    return list(values)


def same_form(value: Value, other: AnyArray) -> bool:
    """Tell whether a value is an array of the same dtype and shape."""
    return (
        isinstance(value, np.ndarray) and value.dtype == other.dtype and value.shape == other.shape
    )


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a batch and their columns; rows that lack a field are listed per field."""

    rows: Rows
    columns: Mapping[str, Column]
    absent: Mapping[str, frozenset[int]]
    """Field → rows of this part without it; fields that all rows have are left out."""

    def rows_with(self, field: str) -> Rows:
        """Return the rows that have the field, ascending."""
        without = self.absent.get(field)
        if not without:
            return self.rows
        return np.array([row for row in self.rows if row not in without], dtype=np.int64)


def part_of(rows: Sequence[int], records: Sequence[Record]) -> Part:
    """Make columns of whole records, one a row."""
    names = dict.fromkeys(name for record in records for name in record)
    columns, absent = {}, {}
    for name in names:
        columns[name] = column_of([record[name] for record in records if name in record])
        without = frozenset(
            row for row, record in zip(rows, records, strict=True) if name not in record
        )
        if without:
            absent[name] = without
    return Part(np.array(rows, dtype=np.int64), columns, absent)


def merge(parts: Sequence[Part], size: int) -> tuple[dict[str, Column], dict[str, Rows]]:
    """Join the parts of a batch of ``size`` rows; several values of a field make one column.

    Returns:
        The columns, and for each column that not every row has just once, the rows that have it.
    """
    pieces: dict[str, list[_Piece]] = {}
    for part in parts:
        for field, column in part.columns.items():
            name, number = split_number(field)
            piece = _Piece(column, part.rows_with(field), -1 if number is None else number)
            pieces.setdefault(name, []).append(piece)
    columns: dict[str, Column] = {}
    rows: dict[str, Rows] = {}
    for name in sorted(pieces):
        columns[name], members = _joined(pieces[name])
        if not np.array_equal(members, np.arange(size)):
            rows[name] = members
    return columns, rows


@dataclass(frozen=True, slots=True)
class _Piece:
    """Values of one field of some rows."""

    column: Column
    rows: Rows
    number: int
    """Which of a row's values they are; -1 where it has one."""


def _joined(pieces: Sequence[_Piece]) -> tuple[Column, Rows]:
    """Return the values in the order of their rows, and of their numbers in each row."""
    if len(pieces) == 1:
        return pieces[0].column, pieces[0].rows
    rows = np.concatenate([piece.rows for piece in pieces])
    numbers = np.concatenate([np.full(len(piece.rows), piece.number) for piece in pieces])
    order = np.lexsort((numbers, rows))
    columns = [piece.column for piece in pieces]
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns) and len({(a.dtype, a.shape[1:]) for a in arrays}) == 1:
        return np.concatenate(arrays)[order], rows[order]
    values = [value for column in columns for value in _values(column)]
    return column_of([values[place] for place in order]), rows[order]


def _values(column: Column) -> Sequence[Value]:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return column.tolist()  # type: ignore[no-any-return]
    return list(column)
