"""Values of the features of a ``tf.train.Example``."""

from __future__ import annotations

import io

import numpy as np

from headrace.core.record import AnyArray, Value
from headrace.dataset.protobuf import FIXED32, LENGTH, VARINT, Walk, varints

BYTES, FLOATS, INTEGERS = "bytes", "float_list", "int64_list"
"""Encodings of a feature: one value of a bytes list; the message of a list of numbers."""


def numbers(encoding: str, data: bytes) -> Value:
    """Return the value of a list of numbers: an int or a float if it holds one, else an array.

    Raises:
        ValueError: the bytes are no such list.
    """
    found = _integers(data) if encoding == INTEGERS else _floats(data)
    one: int | float = found[0].item() if found.size == 1 else 0
    return one if found.size == 1 else found


def _integers(data: bytes) -> AnyArray:
    return varints(_packed(data, VARINT))


def _floats(data: bytes) -> AnyArray:
    return np.frombuffer(_packed(data, FIXED32), "<f4").astype(np.float32)


def _packed(data: bytes, single: int) -> bytes:
    """Return the values of a list, packed or one by one, end to end."""
    found = [
        data[field.begin : field.end]
        for field in Walk(io.BytesIO(data), len(data)).fields(0, len(data))
        if field.number == 1 and field.wire_type in (LENGTH, single)
    ]
    return found[0] if len(found) == 1 else b"".join(found)
