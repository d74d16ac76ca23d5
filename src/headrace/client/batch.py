"""What a training loop receives at each step: named columns over the batch's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from headrace.core.record import value_bytes
from headrace.transform.op import Column, Rows

_SHAPES_TOLD = 3


class Uneven(list[Any]):
    """A column whose arrays differ in shape: a list that says how to join them."""

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError for what arrays have and lists do not; it names the ops."""
        shapes = list(dict.fromkeys(str(list(value.shape)) for value in self))
        told = ", ".join(shapes[:_SHAPES_TOLD]) + (" …" if len(shapes) > _SHAPES_TOLD else "")
        raise AttributeError(
            f"the column has no {name!r}: it is a list, as its arrays differ in shape or type "
            f"({told}); join them by ops.Pad, ops.Ragged or ops.Pack at the end of the pipeline"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaced:
    """A scheduled sample that could not be used, and what was done about it."""

    step: int
    sample: int
    """Global id of the sample that was scheduled."""

    key: str
    """Its name inside its dataset."""

    taken: int | None
    """Global id of the sample in its place; None when the row was dropped."""

    reason: str
    """Why, in words for a person."""


class Batch(Mapping[str, Column]):
    """Columns by field name, in the order of the schedule.

    ``batch["sample"]`` (int64) holds the global ids of the samples that the rows were made of.
    The arrays belong to the receiver: headrace keeps no reference to them.
    """

    __slots__ = ("_columns", "_nbytes", "_rows", "epoch", "replaced", "size", "step")

    def __init__(
        self,
        columns: Mapping[str, Column],
        rows: Mapping[str, Rows],
        *,
        step: int,
        epoch: int,
        size: int,
        replaced: tuple[Replaced, ...] = (),
    ) -> None:
        self._columns = dict(columns)
        self._rows = dict(rows)
        self.step = step
        self.epoch = epoch
        self.size = size
        self.replaced = replaced
        self._nbytes = sum(column_bytes(column) for column in self._columns.values())

    def __getitem__(self, field: str) -> Column:
        """Return one column.

        Raises:
            KeyError: no sample of this batch has the field; the message names those there are.
        """
        try:
            return self._columns[field]
        except KeyError:
            known = ", ".join(sorted(self._columns))
            raise KeyError(f"no sample of this batch has {field!r}; it has {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns; ``size`` is the number of rows."""
        return len(self._columns)

    def rows(self, field: str) -> Rows:
        """Return which rows of the batch the entries of a column belong to, ascending.

        A row that has several values of the field is there as often.

        A column that a batch op joined (``Pack``) has rows of its own, numbered from 0.
        """
        count = len(self[field])
        return self._rows.get(field, np.arange(count, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes held by all columns; summed once, as each step asks for them four times."""
        return self._nbytes

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {_shape(column)}" for name, column in self.items())
        return f"<Batch step {self.step} epoch {self.epoch}, {self.size} rows: {columns}>"


def column_bytes(column: Column) -> int:
    """Return the bytes that a column's values take."""
    if isinstance(column, np.ndarray):
        return column.nbytes
    return sum(value_bytes(value) for value in column)


def _shape(column: Column) -> str:
    if isinstance(column, np.ndarray):
        return f"{column.dtype}{list(column.shape)}"
    return f"list[{len(column)}]"
