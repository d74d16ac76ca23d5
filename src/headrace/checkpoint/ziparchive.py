"""Tells where the records of an uncompressed zip file lie, from its end alone.

``torch.save`` writes such files: records one after the other, their bytes unchanged, then a
directory. A record's bytes end where the next one's header begins, less the description that may
follow them; so its first byte is known without a read for each header. What does not fit that is
refused: compressed or encrypted records, gaps and overlaps, several records of one name, anything
behind the directory.

Source: PKWARE's APPNOTE 6.3.10, sections 4.3 to 4.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from headrace.core.digest import Buffer
from headrace.core.errors import CorruptDataError

ReadRange = Callable[[int, int], Buffer]
"""Returns so many bytes (second) from an offset on (first)."""

TAIL_BYTES = 64 << 10
"""Read at once in the hope that the directory is in it: that of 800 records is [bytes]."""

MOST_DIRECTORY_BYTES = 64 << 20
"""That of a million records takes as much [bytes]."""

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER_BYTES = 30
_DESCRIPTOR_BYTES, _DESCRIPTOR_BYTES_64 = 16, 24
_DESCRIBED, _ENCRYPTED = 0x08, 0x01
_IN_64_BITS = 0xFFFFFFFF
_EXTRA_64 = 1
_MOST_EXTRA_BYTES = 0xFFFF


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an archive."""

    name: str
    offset: int
    """Of its first byte in the file."""

    length: int
    """[bytes]"""


def read_records(read: ReadRange, *, size: int, file: str) -> dict[str, Record]:
    """Return all records by name, in the order of their bytes.

    Args:
        read: Reads the file.
        size: Of the file [bytes].
        file: What it is called in errors.

    Raises:
        CorruptDataError: it is no such archive; says why.
    """
    end, directory = _directory(read, size, file)
    entries = sorted(_entries(end, directory, file), key=lambda entry: entry.header)
    if entries and entries[0].header:
        _refuse(file, f"{entries[0].header} bytes lie before its first record")
    records: dict[str, Record] = {}
    nexts = [*(entry.header for entry in entries[1:]), end.offset]
    for entry, following in zip(entries, nexts, strict=True):
        record = _placed(entry, following, file)
        if record.name in records:
            _refuse(file, f"it has two records {record.name[:99]!r}")
        records[record.name] = record
    return records


@dataclass(frozen=True, slots=True)
class _End:
    """What the end of an archive says of its directory."""

    count: int
    length: int
    offset: int
    limit: int
    """Where the directory must end."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the directory says of one record."""

    name: bytes
    header: int
    length: int
    trailer: int
    """Length of the description that follows the record's bytes."""


def _directory(read: ReadRange, size: int, file: str) -> tuple[_End, Buffer]:
    tail_begin = max(0, size - TAIL_BYTES)
    tail = bytes(read(tail_begin, size - tail_begin))
    end = _end(tail, size, file)
    if end.offset + end.length != end.limit:
        _refuse(file, f"its directory is said to end at {end.offset + end.length}, not {end.limit}")
    if end.length > MOST_DIRECTORY_BYTES:
        _refuse(
            file, f"its directory has {end.length} bytes, at most {MOST_DIRECTORY_BYTES} may be"
        )
    begin = end.offset - tail_begin
    if begin < 0:
        return end, read(end.offset, end.length)
    return end, tail[begin : begin + end.length]


def _end(tail: bytes, size: int, file: str) -> _End:
    last = tail[-_END.size :]
    if not last.startswith(b"PK\5\6") or len(last) != _END.size:
        _refuse(file, "it does not end as a file of torch.save does; was it cut off?")
    _, disk, first_disk, here, count, length, offset, comment = _END.unpack(last)
    if disk or first_disk or comment or here != count:
        _refuse(file, "it is one of several volumes, or has a comment")
    small = _End(count, length, offset, size - _END.size)
    longer = tail[-_END.size - _LOCATOR_64.size - _END_64.size : -_END.size]
    if longer[-_LOCATOR_64.size :].startswith(b"PK\6\7"):
        return _end_64(longer, small, file)
    return small


def _end_64(text: bytes, small: _End, file: str) -> _End:
    """Return what the end says in 64 bits, and require that it does not contradict the other."""
    limit = small.limit - len(text)
    if len(text) != _END_64.size + _LOCATOR_64.size or not text.startswith(b"PK\6\6"):
        _refuse(file, "it has no end in 64 bits where one should be")
    _, _, _, _, disk, first_disk, here, count, length, offset = _END_64.unpack_from(text)
    _, _, found, _ = _LOCATOR_64.unpack_from(text, _END_64.size)
    agree = (
        small.count in (count, 0xFFFF)
        and small.length in (length, _IN_64_BITS)
        and small.offset in (offset, _IN_64_BITS)
    )
    if disk or first_disk or here != count or found != limit or not agree:
        _refuse(file, "its two ends contradict each other")
    return _End(count, length, offset, limit)


def _entries(end: _End, data: Buffer, file: str) -> Iterator[_Entry]:
    position = 0
    for _ in range(end.count):
        if position + _ENTRY.size > len(data):
            _refuse(file, "its directory ends within an entry")
        entry, position = _entry(data, position, file)
        yield entry
    if position != len(data):
        _refuse(file, "its directory is longer than its entries")


def _entry(data: Buffer, position: int, file: str) -> tuple[_Entry, int]:
    """Return an entry of the directory, and where the next one begins."""
    (mark, _, _, flags, method, _, _, _, packed, length, *lengths, disk, _, _, header) = (
        _ENTRY.unpack_from(data, position)
    )
    name_bytes, extra_bytes, comment_bytes = lengths
    begin = position + _ENTRY.size
    following = begin + name_bytes + extra_bytes + comment_bytes
    if mark != b"PK\1\2" or following > len(data):
        _refuse(file, "its directory is damaged")
    name = bytes(data[begin : begin + name_bytes])
    extra = bytes(data[begin + name_bytes : begin + name_bytes + extra_bytes])
    is_large, (length, packed, header) = _in_64_bits(extra, (length, packed, header), file)
    if method or flags & _ENCRYPTED or packed != length or disk:
        shown = name[:99].decode(errors="replace")
        _refuse(file, f"record {shown!r} is compressed or encrypted, torch.save writes none such")
    described = _DESCRIPTOR_BYTES_64 if is_large else _DESCRIPTOR_BYTES
    return _Entry(name, header, length, described if flags & _DESCRIBED else 0), following


def _in_64_bits(extra: bytes, small: tuple[int, ...], file: str) -> tuple[bool, tuple[int, ...]]:
    """Return whether an entry has numbers in 64 bits, and its numbers with those in place."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        if kind == _EXTRA_64:
            field = extra[position + 4 : position + 4 + length]
            return True, _filled(field, small, file)
        position += 4 + length
    if _IN_64_BITS in small:
        _refuse(file, "its directory lacks a number in 64 bits")
    return False, small


def _filled(field: bytes, small: tuple[int, ...], file: str) -> tuple[int, ...]:
    if len(field) != 8 * small.count(_IN_64_BITS):
        _refuse(file, "a number in 64 bits of its directory is damaged")
    larger = iter(struct.unpack(f"<{len(field) // 8}Q", field))
    return tuple(next(larger) if one == _IN_64_BITS else one for one in small)


def _placed(entry: _Entry, following: int, file: str) -> Record:
    """Return where a record lies, when what is next begins at ``following``."""
    name = entry.name.decode(errors="replace")
    offset = following - entry.trailer - entry.length
    extra_bytes = offset - entry.header - _HEADER_BYTES - len(entry.name)
    if extra_bytes < 0:
        _refuse(file, f"record {name[:99]!r} overlaps what follows it")
    if extra_bytes > _MOST_EXTRA_BYTES:
        _refuse(file, f"bytes that belong to nothing lie before record {name[:99]!r}, or in it")
    return Record(name, offset, entry.length)


def _refuse(file: str, why: str) -> NoReturn:
    raise CorruptDataError(f"{file}: {why}; fetch it again, or use another checkpoint")
