"""Turns an index into a tensor into the bytes to read and the index into what was read.

Pure arithmetic. Only what lies together is read: leading numbers and the slice after them narrow
it, the rest is picked from what was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What to read of a tensor, and what to take from it."""

    offset: int
    """From the tensor's first byte on."""

    length: int
    """[bytes]"""

    shape: tuple[int, ...]
    """Of what is read."""

    index: tuple[Any, ...]
    """Into what is read."""


def plan_slice(index: Any, shape: tuple[int, ...], item_bytes: int) -> SlicePlan:
    """Return what to read for ``tensor[index]``.

    Args:
        index: As tensors take it; what is no number or slice is left to the framework.
        shape: The tensor's.
        item_bytes: Of one number.

    Raises:
        IndexError: a leading number lies outside of the tensor.
    """
    rest = list(index) if isinstance(index, tuple) else [index]
    dims = list(shape)
    offset = 0
    while rest and dims and _is_number(rest[0]):
        number, size = int(rest.pop(0)), dims.pop(0)
        if not -size <= number < size:
            raise IndexError(f"index {number} is out of range for a dimension of {size}")
        offset += number % size * prod(dims) * item_bytes
    if rest and dims and isinstance(rest[0], slice):
        first, last, rest[0] = _rows(rest[0], dims[0])
        offset += first * prod(dims[1:]) * item_bytes
        dims[0] = last - first
    return SlicePlan(offset, prod(dims) * item_bytes, tuple(dims), tuple(rest))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _rows(wanted: slice, size: int) -> tuple[int, int, slice]:
    """Return the first row, that after the last, and the slice of what lies between them."""
    rows = range(*wanted.indices(size))
    if not rows:
        return 0, 0, slice(None, None, wanted.step)
    first, last = min(rows[0], rows[-1]), max(rows[0], rows[-1])
    return first, last + 1, slice(None, None, wanted.step)
