"""What one sample is made of while it travels: named fields with plain values."""

from __future__ import annotations

from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[np.generic]

Value: TypeAlias = "AnyArray | bytes | str | int | float | BinaryIO"
"""An array; encoded bytes; text; a number; or, before decoding only, an open range of a file."""

Record: TypeAlias = dict[str, Value]
"""Field name → value. Canonical: ``image``, ``video``, ``audio``, ``text``, ``label``, ``json``."""


def value_bytes(value: Value) -> int:
    """Return the memory that a value holds [bytes]."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return len(value) if isinstance(value, (bytes, str)) else 8


def record_bytes(record: Record) -> int:
    """Return the memory that a record's values hold [bytes]."""
    return sum(value_bytes(value) for value in record.values())
