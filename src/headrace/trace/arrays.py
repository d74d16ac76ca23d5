"""Makes the columns of events out of Python's values and numpy's arrays.

As ``pyarrow.array`` does, but that one imports pandas where it is installed: for a second and 50 MB
in each process that is recorded, in the middle of its first steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COUNTS = pa.map_(pa.string(), pa.int64())
"""Type of numbers by name."""

_MOST = 2**31 - 1
_Nulls = npt.NDArray[np.bool_]


def array_of(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return values, of which some may be None, as a column.

    Args:
        values: Of the Python type that fits.
        kind: string, int64, bool, or :data:`COUNTS`.

    Raises:
        TypeError: a value does not fit.
        AttributeError: a value is no text, or no dict.
        UnicodeEncodeError: a text has a lone surrogate.
        OverflowError: all texts together take 2 GiB.
    """
    if values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    nulls = np.fromiter((value is None for value in values), np.bool_, len(values))
    return _MAKERS[kind](values, nulls)


def numbers(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return an int64 array [rows] as a column."""
    values = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(values)])


def repeated(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column of one value."""
    if value is None:
        return pa.nulls(rows, kind)
    return array_of([value], kind).take(numbers(np.zeros(rows, np.int64)))


def counts(names: pa.Array, values: pa.Array, ends: npt.NDArray[np.int64]) -> pa.Array:
    """Return a column of :data:`COUNTS`.

    Args:
        names: Of all rows' numbers, one row after the other.
        values: The numbers.
        ends: Place of the first name that is no longer the row's, int64 [rows].
    """
    return _map(names, values, ends, None)


def _map(
    names: pa.Array, values: pa.Array, ends: npt.NDArray[np.int64], validity: pa.Buffer | None
) -> pa.Array:
    entries = pa.Array.from_buffers(
        pa.struct([COUNTS.key_field, COUNTS.item_field]), len(names), [None],
        children=[names, values],
    )  # fmt: skip
    return pa.Array.from_buffers(COUNTS, ends.size, [validity, _offsets(ends)], children=[entries])


def _integers(values: Sequence[Any], nulls: _Nulls) -> pa.Array:
    made = np.array([0 if value is None else value for value in values])
    return _fixed(made, nulls, np.dtype(np.int64), pa.int64(), made)


def _booleans(values: Sequence[Any], nulls: _Nulls) -> pa.Array:
    made = np.array([False if value is None else value for value in values])
    bits = np.packbits(made.astype(np.bool_), bitorder="little")
    return _fixed(made, nulls, np.dtype(np.bool_), pa.bool_(), bits)


def _fixed(
    made: npt.NDArray[Any],
    nulls: _Nulls,
    expected: np.dtype[Any],
    kind: pa.DataType,
    data: npt.NDArray[Any],
) -> pa.Array:
    if made.dtype != expected:
        raise TypeError(f"{made[~nulls][:3]} are not all of {kind}")
    return pa.Array.from_buffers(kind, made.size, [_validity(nulls), pa.py_buffer(data)])


def _texts(values: Sequence[Any], nulls: _Nulls) -> pa.Array:
    encoded = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [_validity(nulls), _offsets(ends), data]
    )


def _dicts(values: Sequence[Mapping[str, int] | None], nulls: _Nulls) -> pa.Array:
    items = [item for value in values if value is not None for item in value.items()]
    sizes = (0 if value is None else len(value) for value in values)
    ends = np.cumsum(np.fromiter(sizes, np.int64, len(values)))
    names = array_of([name for name, _ in items], pa.string())
    numbers_ = array_of([number for _, number in items], pa.int64())
    return _map(names, numbers_, ends, _validity(nulls))


_MAKERS: dict[pa.DataType, Callable[[Sequence[Any], _Nulls], pa.Array]] = {
    pa.string(): _texts,
    pa.int64(): _integers,
    pa.bool_(): _booleans,
    COUNTS: _dicts,
}


def _offsets(ends: npt.NDArray[np.int64]) -> pa.Buffer:
    if ends.size and ends[-1] > _MOST:
        raise OverflowError(f"{ends[-1]:,} bytes of text are too many for one batch")
    return pa.py_buffer(np.concatenate([[0], ends]).astype(np.int32))


def _validity(nulls: _Nulls) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
