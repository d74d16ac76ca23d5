"""Finds the messages of Arrow's IPC formats in a file, without reading what they carry.

A stream is a schema, dictionaries and record batches, each a message: a length, a flatbuffer that
describes it, and a body. A file (Feather, version 2) is a stream behind a mark of eight bytes, and
an index behind it, which is not needed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headrace.core.errors import CorruptDataError

SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3
"""Kinds of messages."""

METADATA_BYTES = 16 * 1024 * 1024
"""Longest description of one message [bytes]."""

_MARK = b"ARROW1\0\0"
_CONTINUES = b"\xff\xff\xff\xff"
_I32, _U32, _U16, _I64 = (struct.Struct(f"<{code}") for code in "iIHq")
_BUFFER = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a file."""

    kind: int
    begin: int
    """First byte of the message in the file."""

    body: int
    """First byte of its body in the file."""

    end: int
    buffers: tuple[tuple[int, int], ...]
    """Offset in the body and length of each buffer of a batch."""

    is_compressed: bool
    """Whether the buffers of a batch are."""


def messages(stream: BinaryIO, size: int) -> Iterator[Message]:
    """Yield the messages of a stream or a file of ``size`` bytes up to its end marker.

    Raises:
        CorruptDataError: it is neither, is damaged here, or ends without a marker.
    """
    at = len(_MARK) if stream.read(len(_MARK)) == _MARK else 0
    while message := _message(stream, at, size):
        yield message
        at = message.end


def _message(stream: BinaryIO, at: int, size: int) -> Message | None:
    stream.seek(at)
    begin = at
    length = stream.read(4)
    if length == _CONTINUES:  # written since version 0.15
        length, at = stream.read(4), at + 4
    if len(length) < 4:
        raise CorruptDataError("it has no end marker, so rows may be missing")
    at, described = at + 4, _I32.unpack(length)[0]
    if described == 0:
        return None
    if not 0 < described <= min(METADATA_BYTES, size - at):
        raise CorruptDataError("it is no Arrow file, or ends inside a message")
    try:
        message = _described(stream.read(described), begin, at + described)
    except (struct.error, IndexError) as error:
        raise CorruptDataError(f"it is no Arrow file, or damaged: {error}") from error
    if not message.body <= message.end <= size:
        raise CorruptDataError("it ends inside a message")
    return message


def _described(metadata: bytes, begin: int, body: int) -> Message:
    table = _Table(metadata, _U32.unpack_from(metadata, 0)[0])
    kind = table.byte(1)
    batch = table.table(2)
    if kind == DICTIONARY:
        batch = batch.table(1)
    held = kind in (DICTIONARY, RECORD_BATCH)
    return Message(
        kind=kind,
        begin=begin,
        body=body,
        end=body + table.long(3),
        buffers=tuple(batch.pairs(2)) if held else (),
        is_compressed=held and batch.has(3),
    )


class _Table:
    """A table of a flatbuffer: fields at places that a table of places tells."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._places = at - _I32.unpack_from(data, at)[0]
        if self._places < 0:
            raise IndexError("a table lies outside of its message")
        self._size = _U16.unpack_from(data, self._places)[0]

    def has(self, field: int) -> bool:
        """Whether a field is there; one that is not has its default, 0."""
        return self._place(field) > 0

    def byte(self, field: int) -> int:
        place = self._place(field)
        return self._data[place] if place else 0

    def long(self, field: int) -> int:
        place = self._place(field)
        return int(_I64.unpack_from(self._data, place)[0]) if place else 0

    def table(self, field: int) -> _Table:
        return _Table(self._data, self._target(field))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of numbers in a list."""
        if not self.has(field):
            return
        target = self._target(field)
        count = _U32.unpack_from(self._data, target)[0]
        pairs = self._data[target + 4 : target + 4 + count * _BUFFER.size]
        if len(pairs) < count * _BUFFER.size:
            raise IndexError("a list reaches over the end of its message")
        yield from _BUFFER.iter_unpack(pairs)

    def _target(self, field: int) -> int:
        place = self._place(field)
        if not place:
            raise IndexError(f"field {field} of a message is missing")
        return place + int(_U32.unpack_from(self._data, place)[0])

    def _place(self, field: int) -> int:
        """Return where a field lies, 0 if it is left out."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        offset = _U16.unpack_from(self._data, self._places + entry)[0]
        return self._at + int(offset) if offset else 0
