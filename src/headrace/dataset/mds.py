"""Scans shards of MosaicML Streaming (``.mds``), plain or compressed.

A shard says how many samples it has, where each begins, and which columns they have; a sample
begins with the lengths of those columns whose values differ in length. Values are ranges of
the file. A compressed shard is decompressed as a whole: the ranges are those of its content.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.core.numbered import shared_name
from headrace.dataset.cost import image_cost, text_cost
from headrace.dataset.hashes import wrong_digest
from headrace.dataset.location import Kind, Member, SampleLocation
from headrace.dataset.mdscolumns import Column, name_fields
from headrace.dataset.mdsvalues import LISTS, picture_head
from headrace.dataset.media import leading_kind
from headrace.dataset.probe import Headers, joint, probe
from headrace.dataset.scan import Scan, ScanSource
from headrace.dataset.shards import decompressed, within_limit

CONFIG_BYTES = 16 * 1024 * 1024
"""Largest description of a shard's columns [bytes]."""

COLUMNS = 65_536
"""Most columns of a shard."""

LIST_VALUES = 1024
"""Longest list of pictures in one sample."""

_U32 = struct.Struct("<I")
_OFFSETS_READ = 16 * 1024
"""Places of samples that are in memory at once."""


class _Config(msgspec.Struct, frozen=True):
    column_names: tuple[str, ...]
    column_encodings: tuple[str, ...]
    column_sizes: tuple[int | None, ...]

    def columns(self) -> tuple[Column, ...]:
        described = (self.column_names, self.column_encodings, self.column_sizes)
        if len(set(map(len, described))) > 1 or len(set(self.column_names)) < len(described[0]):
            raise CorruptDataError("it is no MDS shard: its columns are not told one by one")
        if len(self.column_names) > COLUMNS:
            raise CorruptDataError(f"it has more than {COLUMNS} columns")
        if any(size is not None and size < 0 for size in self.column_sizes):
            raise CorruptDataError("it is no MDS shard: a column's values have a negative length")
        return tuple(Column(*each) for each in zip(*described, strict=True))


def scan_mds(source: ScanSource) -> Scan:
    """Yield the samples of a shard, and what is wrong with it."""
    count = 0
    try:
        _require_digests(source)
        content = _content(source)
        for sample in _Shard(source, content).samples():
            yield sample
            count += 1
        _require_size(source)
    except (HeadraceError, ValueError) as error:
        kept = f"only the {count} samples before the damage are kept; then: " if count else ""
        yield source.broken(f"{kept}{error}")
        return
    if content.is_compressed:
        yield source.slow(
            "the shard is compressed, so that each sample needs all of it to be decompressed; "
            "decompress it, write it with compression=None, or train with order='block'"
        )


def _require_digests(source: ScanSource) -> None:
    """Compare the file with the digests in its directory's manifest; reads all of it for them."""
    if source.promise is None or not source.promise.hashes:
        return
    _require_size(source)
    with source.open() as stream:
        wrong = wrong_digest(stream, source.promise.hashes)
    if wrong is not None:
        raise CorruptDataError(
            f"its {wrong} is not what its directory's index.json says; copy it again"
        )


def _require_size(source: ScanSource) -> None:
    if source.promise is not None and source.promise.bytes != source.file.size:
        raise CorruptDataError(
            f"it has {source.file.size} bytes, its directory's index.json says "
            f"{source.promise.bytes}; copy it again"
        )


@dataclass(frozen=True, slots=True)
class _Content:
    """A shard without its compression."""

    size: int
    open: Callable[[int, int], BinaryIO]
    probe: Callable[[Kind, int, int], Headers]
    is_compressed: bool


def _content(source: ScanSource) -> _Content:
    if source.file.path.lower().endswith(".mds"):
        return _Content(source.file.size, source.open, source.probe, False)
    within_limit(source.file.size)
    with source.open() as stream:
        data = decompressed(source.file.path, stream.read())

    def part(offset: int, length: int) -> BinaryIO:
        return io.BytesIO(data[offset : offset + length])

    return _Content(
        len(data),
        part,
        lambda kind, offset, length: probe(kind, lambda: part(offset, length)),
        True,
    )


class _Shard:
    """The samples of one shard."""

    def __init__(self, source: ScanSource, content: _Content) -> None:
        self._source = source
        self._content = content
        self._stream = content.open(0, content.size)
        self._count = self._number(0)
        self._places = 4 * (self._count + 1)
        if 4 + self._places > content.size:
            raise CorruptDataError(
                f"it is no MDS shard: {self._count} samples do not fit into {content.size} bytes"
            )
        self._first = self._number(4)
        self._columns = self._read_columns()
        self._fields = name_fields(self._columns, source.options.text_field)
        if not self._fields:
            raise CorruptDataError(_no_columns(self._columns))

    def samples(self) -> Iterator[SampleLocation]:
        """Yield the samples that lie wholly in the shard.

        Raises:
            CorruptDataError: the places of its samples are wrong, or it ends too early.
        """
        begin = self._first
        for number, end in enumerate(self._ends()):
            if end < begin:
                raise CorruptDataError(f"sample {number} ends before it begins")
            if end > self._content.size:
                raise CorruptDataError(f"it ends inside sample {number}")
            yield self._sample(number, begin, end)
            begin = end
        if begin != self._content.size:
            raise CorruptDataError(f"{self._content.size - begin} bytes follow the last sample")

    def _ends(self) -> Iterator[int]:
        with self._content.open(8, 4 * self._count) as stream:
            while block := stream.read(4 * _OFFSETS_READ):
                yield from (end for (end,) in _U32.iter_unpack(block))

    def _number(self, at: int) -> int:
        self._stream.seek(at)
        data = self._stream.read(4)
        if len(data) < 4:
            raise CorruptDataError("it is no MDS shard: it ends inside its head")
        return int(_U32.unpack(data)[0])

    def _read_columns(self) -> tuple[Column, ...]:
        begin = 4 + self._places
        if not begin < self._first <= min(self._content.size, begin + CONFIG_BYTES):
            raise CorruptDataError("it is no MDS shard: its first sample lies outside of it")
        self._stream.seek(begin)
        try:
            config = msgspec.json.decode(self._stream.read(self._first - begin), type=_Config)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CorruptDataError(f"it is no MDS shard: its columns: {error}") from error
        return config.columns()

    def _sample(self, number: int, begin: int, end: int) -> SampleLocation:
        file = self._source.file
        try:
            members = tuple(self._members(begin, end))
            headers = self._headers(members)
        except CorruptDataError as error:
            members, headers = (), Headers(broken=str(error))
        return self._source.sample(
            key=f"{file.path}#{number}",
            kind=_kind(members),
            container="mds",
            offset=begin,
            length=sum(member.length for member in members),
            members=members,
            row=number,
            block=0 if self._content.is_compressed else -1,
            headers=headers,
        )

    def _members(self, begin: int, end: int) -> Iterator[Member]:
        for column, at, length in self._values(begin, end):
            if column.name in self._fields:
                yield from self._column(self._fields[column.name], column.encoding, at, length)

    def _values(self, begin: int, end: int) -> Iterator[tuple[Column, int, int]]:
        varying = sum(not column.size for column in self._columns)
        self._stream.seek(begin)
        head = self._stream.read(min(4 * varying, end - begin))
        lengths = (length for (length,) in _U32.iter_unpack(head[: len(head) // 4 * 4]))
        sizes = [column.size or next(lengths, 0) for column in self._columns]
        at = begin + 4 * varying
        if at + sum(sizes) != end:
            raise CorruptDataError(
                f"its columns have {4 * varying + sum(sizes)} bytes, the sample {end - begin}"
            )
        for column, size in zip(self._columns, sizes, strict=True):
            yield column, at, size
            at += size

    def _column(self, field: str, encoding: str, at: int, length: int) -> Iterator[Member]:
        if encoding not in LISTS:
            yield Member(field=field, name=encoding, offset=at, length=length)
            return
        for number, (begin, size) in enumerate(self._listed(encoding, at, length)):
            yield Member(field=f"{field}.{number}", name=LISTS[encoding], offset=begin, length=size)

    def _listed(self, encoding: str, at: int, length: int) -> Iterator[tuple[int, int]]:
        """Yield where the values of a list lie; its lengths stand before them."""
        head = 8 if encoding.startswith("list") else 4
        count = self._number(at + head - 4) if length >= head else 0
        if count > LIST_VALUES or head + 4 * count > length:
            raise CorruptDataError(f"a list of {count} pictures in {length} bytes")
        sizes = _U32.iter_unpack(self._stream.read(4 * count))
        begin, end = at + head + 4 * count, at + length
        for (size,) in sizes:
            if begin + size > end:
                raise CorruptDataError("a list's pictures reach over its end")
            yield begin, size
            begin += size

    def _headers(self, members: tuple[Member, ...]) -> Headers:
        kind = _kind(members)
        main = [member for member in members if shared_name(member.field) == kind]
        if kind in ("text", "other"):
            return Headers(cost_s=text_cost(sum(member.length for member in main)))
        return joint({member.field: self._medium(kind, member) for member in main})

    def _medium(self, kind: Kind, member: Member) -> Headers:
        if member.name == "pil":
            return self._raw_pixels(member)
        return self._content.probe(kind, member.offset, member.length)

    def _raw_pixels(self, member: Member) -> Headers:
        self._stream.seek(member.offset)
        width, height = picture_head(self._stream.read(min(64, member.length)), member.length)
        return Headers(width=width, height=height, cost_s=image_cost("TIFF", width, height))


def _kind(members: tuple[Member, ...]) -> Kind:
    return leading_kind({member.field for member in members})


def _no_columns(columns: tuple[Column, ...]) -> str:
    names = ", ".join(f"{column.name} ({column.encoding})" for column in columns)
    return f"none of its columns can be read: {names or 'it has none'}"
