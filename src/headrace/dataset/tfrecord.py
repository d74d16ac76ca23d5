"""Scans TFRecord files, plain or gzip: each record is a sample.

A record that is a ``tf.train.Example`` has the fields of ``example``; anything else, such as a
``SequenceExample``, is the field ``record`` as a whole. Offsets are those of the uncompressed
file. Lengths are checked by their checksums here, records when they are read.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.core.numbered import shared_name
from headrace.dataset.cost import text_cost
from headrace.dataset.example import example_features, example_members
from headrace.dataset.features import BYTES
from headrace.dataset.gziptext import RESTART_BYTES
from headrace.dataset.location import Kind, Member, SampleLocation
from headrace.dataset.media import leading_kind
from headrace.dataset.probe import Headers, joint, probe
from headrace.dataset.recordframe import HEAD_BYTES, RECORD_BYTES, TAIL_BYTES, record_length
from headrace.dataset.scan import Scan, ScanSource


@dataclass(frozen=True, slots=True)
class _Record:
    """One record, whose bytes are those of a stream from ``begin`` on."""

    number: int
    offset: int
    """First byte in the uncompressed file."""

    length: int
    stream: BinaryIO
    begin: int


def scan_tfrecord(source: ScanSource) -> Scan:
    """Yield the records of a file, and what is wrong with it."""
    compressed = source.file.path.lower().endswith(".gz")
    count = 0
    try:
        for record in _compressed(source) if compressed else _plain(source):
            yield _sample(source, record, compressed)
            count += 1
        points = source.restart_points() if compressed else None
    except (HeadraceError, OSError, EOFError, zlib.error) as error:
        yield source.broken(f"only the {count} records before the damage are kept; then: {error}")
        return
    if points is not None:
        source.side.put(source.file, points)


def _plain(source: ScanSource) -> Iterator[_Record]:
    size, at, number = source.file.size, 0, 0
    with source.open() as stream:
        while at < size:
            stream.seek(at)
            length = record_length(stream.read(HEAD_BYTES))
            begin, at = at + HEAD_BYTES, at + HEAD_BYTES + length + TAIL_BYTES
            if at > size:
                raise CorruptDataError(f"it ends inside record {number}")
            yield _Record(number, begin, length, stream, begin)
            number += 1


def _compressed(source: ScanSource) -> Iterator[_Record]:
    at = number = 0
    with source.open() as stream, gzip.GzipFile(fileobj=stream) as text:
        while head := text.read(HEAD_BYTES):
            length = record_length(head)
            data = text.read(min(length, RECORD_BYTES))
            rest = length - len(data) + TAIL_BYTES
            if _skip(text, rest) < rest:
                raise CorruptDataError(f"it ends inside record {number}")
            yield _Record(number, at + HEAD_BYTES, length, io.BytesIO(data), 0)
            at += HEAD_BYTES + length + TAIL_BYTES
            number += 1


def _skip(text: gzip.GzipFile, count: int) -> int:
    skipped = 0
    while skipped < count and (piece := text.read(min(count - skipped, 1 << 20))):
        skipped += len(piece)
    return skipped


def _sample(source: ScanSource, record: _Record, compressed: bool) -> SampleLocation:
    file = source.file
    members = tuple(_members(source, record))
    kind = leading_kind({member.field for member in members})
    headers = _headers(source, record, kind, members, compressed)
    return source.sample(
        key=f"{file.path}#{record.number}",
        kind=kind,
        container="tfrecord",
        offset=record.offset,
        length=sum(member.length for member in members),
        members=members,
        row=record.number,
        block=record.offset // RESTART_BYTES if compressed else -1,
        headers=headers,
    )


def _members(source: ScanSource, record: _Record) -> Iterator[Member]:
    if record.length > RECORD_BYTES:
        return
    shift, end = record.offset - record.begin, record.begin + record.length
    try:
        found = example_features(record.stream, record.begin, end)
    except ValueError:
        found = {}
    for member in example_members(found, source.options.text_field):
        yield Member(
            field=member.field,
            name=member.name,
            offset=member.offset + shift,
            length=member.length,
        )
    if not found:
        yield Member(field="record", name=BYTES, offset=record.offset, length=record.length)


def _headers(
    source: ScanSource, record: _Record, kind: Kind, members: tuple[Member, ...], compressed: bool
) -> Headers:
    if not members:
        return Headers(broken=f"the record is longer than {RECORD_BYTES >> 20} MiB")
    main = [m for m in members if shared_name(m.field) == kind] or [members[0]]
    if kind in ("text", "other"):
        return Headers(cost_s=text_cost(sum(member.length for member in main)))
    held = record if compressed else None
    return joint({member.field: _medium(source, held, kind, member) for member in main})


def _medium(source: ScanSource, held: _Record | None, kind: Kind, member: Member) -> Headers:
    """Read the headers of a medium in the file, or in a record that is held in memory."""
    if held is None:
        return source.probe(kind, member.offset, member.length)
    held.stream.seek(member.offset - held.offset)
    data = held.stream.read(member.length)
    return probe(kind, lambda: io.BytesIO(data))
