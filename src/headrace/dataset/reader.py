"""Reads samples where the index says they are, and notices when that is no longer true.

``read_raw`` gives what travels in a raw frame: encoded bytes by field. ``decode_fields`` makes
the values of it that a pipeline starts from.

A file's size and version are compared with the index after its bytes were read: had it
changed before or meanwhile, the comparison would show it, so bytes from a stale offset
are never returned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace.core.errors import (
    ConfigError,
    CorruptDataError,
    CorruptSampleError,
    NotFoundError,
    StaleIndexError,
    StorageError,
)
from headrace.core.numbered import shared_name
from headrace.core.record import Record
from headrace.dataset.cache import CacheStatistics
from headrace.dataset.fields import by_field
from headrace.dataset.lines import Lines
from headrace.dataset.location import WHOLE_FILE, Container, Member, SampleLocation
from headrace.dataset.records import Records
from headrace.dataset.shards import Shards
from headrace.dataset.side import SideFiles
from headrace.dataset.uncompressed import Uncompressed
from headrace.dataset.values import document_lengths, value
from headrace.storage.port import ByteRange, Describes, FileInfo, Storage
from headrace.storage.rangefile import RangeFile

if TYPE_CHECKING:
    from headrace.dataset.rowgroups import RowGroups

RANGED: frozenset[Container] = frozenset({"file", "tar", "mds", "megatron", "arrow"})
"""Containers whose members are ranges of the file, unless it is compressed."""

SAMPLE_BYTES = 512 * 1024 * 1024
"""Most that is read of a sample at once, but for its clips and sounds [bytes]."""

_LONG = frozenset({"video", "audio"})

GAP_BYTES = 16 * 1024
"""Members of a sample closer than this are fetched by one read [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderLimits:
    """How much a reader keeps in memory."""

    row_group_bytes: int = 256 * 1024 * 1024
    """Decoded Parquet row groups and record batches of Arrow that are kept [bytes]."""

    frame_bytes: int = 64 * 1024 * 1024
    """Decompressed Zstandard frames that are kept [bytes]."""

    shard_bytes: int = 256 * 1024 * 1024
    """Decompressed MDS shards that are kept [bytes]."""

    def __post_init__(self) -> None:
        if min(self.row_group_bytes, self.frame_bytes, self.shard_bytes) < 0:
            raise ConfigError(
                f"row_group_bytes={self.row_group_bytes}, frame_bytes={self.frame_bytes} and "
                f"shard_bytes={self.shard_bytes} must be 0 or more"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderStatistics:
    """What a reader's caches did."""

    row_groups: CacheStatistics
    frames: CacheStatistics
    shards: CacheStatistics


class SampleReader:
    """Reads the samples of one dataset. Thread-safe."""

    def __init__(
        self,
        storage: Storage,
        *,
        side: SideFiles | None = None,
        limits: ReaderLimits | None = None,
    ) -> None:
        """Read below a storage's root.

        Args:
            storage: The dataset; it stays the caller's to close.
            side: The files kept beside the index; None is ``.headrace`` below the root.
            limits: What may be kept in memory.
        """
        limits = limits or ReaderLimits()
        self._storage = storage
        self._describes = storage if isinstance(storage, Describes) else None
        self._limits = limits
        self._opening = threading.Lock()
        self._opened_groups: RowGroups | None = None
        self._files = Uncompressed(storage, side or SideFiles(storage), limits.frame_bytes)
        self._shards = Shards(storage, limits.shard_bytes)
        self._readers: dict[Container, Callable[[SampleLocation], dict[str, bytes]]] = {
            "parquet": lambda location: self._row_groups().read(location),
            "arrow": lambda location: self._row_groups().read(location),
            "jsonl": Lines(self._files).read,
            "mds": self._shards.read,
            "tfrecord": Records(self._files).read,
        }

    def read_raw(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the encoded bytes of each field of a sample.

        Raises:
            StaleIndexError: the file changed or vanished since it was indexed.
            CorruptSampleError: the bytes are there, but are not a sample.
            StorageError: the file cannot be read.
        """
        _require_readable(location)
        own = tuple(member for member in location.members if member.offset != WHOLE_FILE)
        if len(own) < len(location.members):
            return self._read_apart(location, own)
        if _is_ranged(location):
            return self._read_members(location, location.members)
        with self.unchanged(location):
            return self._readers[location.container](location)

    def read_run(self, locations: Sequence[SampleLocation]) -> list[dict[str, bytes]]:
        """Return what ``read_raw`` would for several samples of one file, by one read if possible.

        Containers that hold ranges are read from the first byte of the samples to the last one,
        whatever lies between; others sample by sample, in the order given.

        Args:
            locations: Samples that lie close together.

        Raises: as ``read_raw``; then nothing is returned of any.
        """
        first = locations[0]
        if not all(map(_is_ranged, locations)):
            return [self.read_raw(location) for location in locations]
        members = [member for location in locations for member in location.members]
        begin = min((member.offset for member in members), default=0)
        end = max((member.offset + member.length for member in members), default=0)
        with self.unchanged(first):
            data = memoryview(self._storage.read(first.file, begin, end - begin))
        return [
            by_field(
                location.members,
                [bytes(data[m.offset - begin :][: m.length]) for m in location.members],
            )
            for location in locations
        ]

    def open_record(
        self, location: SampleLocation, streams: frozenset[str] = frozenset({"video"})
    ) -> Record:
        """Return the record with some fields as seekable streams, of which only parts are read.

        Reading a stream raises as ``read_raw`` does. Fields in containers that hold no ranges
        of their own (Parquet, compressed files) are bytes nevertheless.

        Raises: as ``read_raw`` and ``decode_fields``.
        """
        streamed = [member for member in location.members if member.field in streams]
        if not _is_ranged(location) or not streamed:
            return decode_fields(location, self.read_raw(location))
        others = [member for member in location.members if member.field not in streams]
        _require_readable(location)
        record = decode_fields(location, self._read_members(location, others))
        record.update({member.field: self._open(location, member) for member in streamed})
        return record

    def require_unchanged(self, location: SampleLocation) -> None:
        """Compare a sample's file with what was indexed.

        Raises:
            StaleIndexError: it changed, or is gone.
        """
        try:
            now = self._storage.stat(location.file)
        except NotFoundError as error:
            raise StaleIndexError(_stale(location, "is gone")) from error
        _require_same(location, now)

    def statistics(self) -> ReaderStatistics:
        """Return what the caches did."""
        return ReaderStatistics(
            row_groups=self._row_groups().statistics(),
            frames=self._files.statistics(),
            shards=self._shards.statistics(),
        )

    def close(self) -> None:
        """Forget what is kept in memory."""
        if self._opened_groups is not None:
            self._opened_groups.close()
        self._files.close()
        self._shards.close()

    def _row_groups(self) -> RowGroups:
        """Return the reader of Parquet rows; importing it is half of a worker's start-up time."""
        with self._opening:
            if self._opened_groups is None:
                from headrace.dataset.rowgroups import RowGroups

                self._opened_groups = RowGroups(self._storage, self._limits.row_group_bytes)
            return self._opened_groups

    @contextmanager
    def unchanged(self, location: SampleLocation) -> Iterator[None]:
        """Run a block that reads a sample's file, then compare the file with the index.

        Raises: as the block, or as ``require_unchanged``.
        """
        with self._explained(location):
            yield
        self.require_unchanged(location)

    @contextmanager
    def _explained(self, location: SampleLocation) -> Iterator[None]:
        """Run a block that reads a sample's file; an error means that it changed, if it did.

        Raises:
            StaleIndexError: the file changed, or is gone.
            StorageError: the store said that the file is gone, and then that it is not.
        """
        try:
            yield
        except (StorageError, CorruptDataError):
            self.require_unchanged(location)
            raise
        except NotFoundError as error:
            self.require_unchanged(location)
            raise StorageError(f"{error}; but asked again, the store says it is there") from error

    def _read_apart(self, location: SampleLocation, own: tuple[Member, ...]) -> dict[str, bytes]:
        """Read a sample of which some members are files of their own."""
        inside = msgspec.structs.replace(location, members=own)
        found = self.read_raw(inside) if own else {}
        for member in location.members:
            if member.offset == WHOLE_FILE:
                found[member.field] = self._read_file(location, member)
        return {member.field: found[member.field] for member in location.members}

    def _read_file(self, location: SampleLocation, member: Member) -> bytes:
        try:
            size = self._storage.stat(member.name).size
        except NotFoundError as error:
            raise StaleIndexError(
                _stale(location, f"names {member.name}, which is gone")
            ) from error
        if size != member.length:
            change = f"names {member.name}, which has {size} bytes instead of {member.length}"
            raise StaleIndexError(_stale(location, change))
        return self._storage.read(member.name, 0, member.length)

    def _read_members(
        self, location: SampleLocation, members: Sequence[Member]
    ) -> dict[str, bytes]:
        """Read members of a file that is as it was indexed."""
        runs = list(_runs(members))
        spans = [_span(run) for run in runs]
        read = self._read_spans(location, spans)
        found: dict[Member, bytes] = {}
        for run, span, data in zip(runs, spans, read, strict=True):
            for member in run:
                start = member.offset - span.offset
                whole = len(data) == member.length
                found[member] = data if whole else data[start : start + member.length]
        return by_field(members, [found[member] for member in members])

    def _read_spans(self, location: SampleLocation, spans: Sequence[ByteRange]) -> Sequence[bytes]:
        if self._describes is None or not spans:
            with self.unchanged(location):
                return self._storage.read_ranges(location.file, spans) if spans else ()
        with self._explained(location):
            found, now = self._describes.read_described(location.file, spans)
        _require_same(location, now)
        return found

    def _open(self, location: SampleLocation, member: Member) -> RangeFile:
        checked = _Checked(self, self._storage, location)
        return RangeFile(checked, location.file, member.offset, member.length)


def decode_fields(location: SampleLocation, raw: Mapping[str, bytes]) -> Record:
    """Return the record that a pipeline starts from.

    Fields become what ``values.value`` makes of them. ``label`` is that of the class folder, and
    ``text`` the caption in another file, where the sample has none of its own; windows of tokens
    tell their ``documents``.

    Raises:
        CorruptSampleError: a value is not what its encoding says.
    """
    names = {member.field: member.name for member in location.members}
    record: Record = {}
    for field, data in raw.items():
        try:
            record[field] = value(location.container, field, names.get(field, ""), data)
        except (ValueError, LookupError, CorruptDataError) as error:
            raise CorruptSampleError(
                f"{location.key}: its {field} cannot be read: {error}"
            ) from error
    if location.container == "megatron":
        record["documents"] = document_lengths(location.members)
    if location.label is not None:
        record.setdefault("label", location.label)
    if location.text is not None:
        record.setdefault("text", location.text)
    return record


def _require_same(location: SampleLocation, now: FileInfo) -> None:
    if now.size != location.file_size:
        change = f"has {now.size} bytes instead of {location.file_size}"
        raise StaleIndexError(_stale(location, change))
    if now.version != location.file_version:
        raise StaleIndexError(_stale(location, "was modified"))


@dataclass(frozen=True, slots=True)
class _Checked:
    """Reads of one sample's file, each compared with the index like any other."""

    reader: SampleReader
    storage: Storage
    location: SampleLocation

    def read(self, path: str, offset: int, length: int) -> bytes:
        with self.reader.unchanged(self.location):
            return self.storage.read(path, offset, length)


def _is_ranged(location: SampleLocation) -> bool:
    return (
        location.container in RANGED
        and location.block < 0
        and all(member.offset != WHOLE_FILE for member in location.members)
    )


def _require_readable(location: SampleLocation) -> None:
    ranged = location.container in RANGED and location.block < 0
    whole = sum(
        member.length
        for member in location.members
        if (ranged or member.offset == WHOLE_FILE) and shared_name(member.field) not in _LONG
    )
    if whole > SAMPLE_BYTES:
        raise CorruptSampleError(
            f"{location.key} has {whole} B to be read at once, more than {SAMPLE_BYTES}; divide "
            "it, or leave it out"
        )


def _runs(members: Sequence[Member]) -> Iterator[list[Member]]:
    """Group members that lie close together, in the order of their offsets."""
    run: list[Member] = []
    for member in sorted(members, key=lambda member: member.offset):
        if run and member.offset - (run[-1].offset + run[-1].length) > GAP_BYTES:
            yield run
            run = []
        run.append(member)
    if run:
        yield run


def _span(run: Sequence[Member]) -> ByteRange:
    return ByteRange(run[0].offset, run[-1].offset + run[-1].length - run[0].offset)


def _stale(location: SampleLocation, change: str) -> str:
    return (
        f"{location.file} {change} since it was indexed, so the place of {location.key} in it is "
        "not known any more; run `headrace index` again"
    )
