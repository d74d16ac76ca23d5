"""As much of protobuf's wire format as a ``tf.train.Example`` is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types of a field."""

_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_VARINT_BYTES = 10
_HEAD_BYTES = 2 * _VARINT_BYTES


class Field(NamedTuple):
    """One field of a message: where its value lies in the stream."""

    number: int
    wire_type: int
    begin: int
    end: int


class Walk:
    """Walks through messages of a stream, over so many fields in all and no more."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._left = limit

    def fields(self, begin: int, end: int) -> Iterator[Field]:
        """Yield the fields of the message in ``[begin, end)``, without their values.

        The stream may be moved between two fields.

        Raises:
            ValueError: it is no message, a field reaches over its end, or there are too many.
        """
        while begin < end:
            field = self._field(begin, end)
            yield field
            begin = field.end

    def read(self, field: Field) -> bytes:
        """Return the value of a field."""
        self._stream.seek(field.begin)
        return self._stream.read(field.end - field.begin)

    def _field(self, begin: int, end: int) -> Field:
        if not self._left:
            raise ValueError(f"it has more than {self._limit} fields")
        self._left -= 1
        self._stream.seek(begin)
        head = self._stream.read(min(_HEAD_BYTES, end - begin))
        tag, at = _varint(head, 0)
        number, wire_type = tag >> 3, tag & 7
        length = _FIXED_BYTES.get(wire_type, 0)
        if wire_type == LENGTH:
            length, at = _varint(head, at)
        elif wire_type == VARINT:
            length = _varint(head, at)[1] - at
        elif not length:
            raise ValueError(f"a field has wire type {wire_type}")
        value = begin + at
        if not number or length > end - value:
            raise ValueError(f"field {number} of {length} bytes does not fit into its message")
        return Field(number, wire_type, value, value + length)


def varints(data: bytes) -> npt.NDArray[np.int64]:
    """Return the numbers packed in ``data``, ``int64 [N]``.

    Raises:
        ValueError: the last one is cut, or one has more than 10 bytes.
    """
    octets = np.frombuffer(data, np.uint8)
    if not octets.size:
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(octets < 0x80) + 1
    if not ends.size or ends[-1] != octets.size:
        raise ValueError("a number is cut off")
    starts = np.concatenate(([0], ends[:-1]))
    lengths = ends - starts
    if lengths.max() > _VARINT_BYTES:
        raise ValueError("a number has more than 64 bits")
    places = np.arange(octets.size) - np.repeat(starts, lengths)
    parts = (octets & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    number = 0
    for count, octet in enumerate(data[at : at + _VARINT_BYTES]):
        number |= (octet & 0x7F) << (7 * count)
        if octet < 0x80:
            return number, at + count + 1
    raise ValueError("a number is cut off, or has more than 64 bits")
