"""The frame around each record of a TFRecord file: its length and two checksums."""

from __future__ import annotations

import struct

import google_crc32c

from headrace.core.errors import CorruptDataError

HEAD_BYTES = 12
"""Length of a record, and the checksum of that [bytes]."""

TAIL_BYTES = 4
"""Checksum of the record [bytes]."""

RECORD_BYTES = 256 * 1024 * 1024
"""Longest record that is one sample [bytes]."""

_LENGTH = struct.Struct("<Q")
_SUM = struct.Struct("<I")


def record_length(head: bytes) -> int:
    """Return the length that the head of a record says [bytes].

    Raises:
        CorruptDataError: it is damaged.
    """
    if len(head) < HEAD_BYTES:
        raise CorruptDataError("it ends inside the head of a record")
    if _masked(head[:8]) != _SUM.unpack_from(head, 8)[0]:
        raise CorruptDataError("the length of a record is damaged")
    return int(_LENGTH.unpack_from(head)[0])


def require_intact(record: bytes, tail: bytes) -> None:
    """Compare a record with the checksum behind it.

    Raises:
        CorruptDataError: they do not agree.
    """
    if len(tail) < TAIL_BYTES or _masked(record) != _SUM.unpack_from(tail)[0]:
        raise CorruptDataError("the record is damaged: its checksum is another")


def _masked(data: bytes) -> int:
    """Return the CRC-32C of some bytes, as TFRecord files hold it: rotated, and a constant added.

    Source: tensorflow/core/lib/hash/crc32c.h, ``Mask``.
    """
    crc = google_crc32c.value(data)
    return int(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
