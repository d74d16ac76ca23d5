"""Scans WebDataset shards: members with the same key, one after another, are one sample.

The key is a member's name up to the first dot of its last component, the rest is its
extension. Names are only ever keys: one that is absolute or climbs with ``..`` is read
like any other and never used as a path. Of a truncated shard the complete samples are
kept and the rest is reported.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, cast

from headrace.core.errors import HeadraceError
from headrace.core.numbered import shared_name
from headrace.dataset.cost import text_cost
from headrace.dataset.location import Kind, Member, SampleLocation
from headrace.dataset.media import leading_kind, member_field
from headrace.dataset.probe import Headers, joint
from headrace.dataset.scan import Scan, ScanSource

MEMBERS = 2048
"""Most members of one sample."""

PADDING_BYTES = 1024 * 1024
"""Zeros that may follow the end marker [bytes]."""

HEADER_BYTES = 1024 * 1024
"""Longest name, or extended header, of a member [bytes]."""


def scan_tar(source: ScanSource) -> Scan:
    """Yield the samples of an uncompressed tar file."""
    samples = _Samples(source)
    try:
        with source.open() as stream, _opened(stream) as archive:
            for entry in _entries(archive):
                if entry.offset_data + entry.size > source.file.size:
                    raise tarfile.ReadError(f"it ends inside the member {entry.name!r}")
                yield from samples.add(entry)
            _require_end(stream, archive.offset, source.file.size)
    except (tarfile.TarError, HeadraceError, OSError, ValueError, RecursionError) as error:
        yield source.broken(
            f"only the {samples.count} samples before the damage are kept; then: {error}"
        )
        return
    yield from samples.finish()


def _opened(stream: BinaryIO) -> tarfile.TarFile:
    """Open an archive; its names are read alike whatever this host's locale is."""
    return tarfile.open(
        fileobj=cast("BinaryIO", _Headers(stream)),
        mode="r:",
        encoding="utf-8",
        errors="backslashreplace",
    )


class _Headers:
    """A tar file's stream as ``tarfile`` sees it, of which it reads nothing but headers."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek = stream.seek
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        """Read so many bytes.

        Raises:
            ReadError: they are more than a header has; ``tarfile`` would take all into memory.
        """
        if size > HEADER_BYTES:
            raise tarfile.ReadError(f"it has a header of {size} bytes, more than {HEADER_BYTES}")
        return self._stream.read(size)


def _entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (entry := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined] # tarfile keeps them all otherwise
        if entry.isreg():
            yield entry


def _require_end(stream: BinaryIO, offset: int, size: int) -> None:
    """Raise ``ReadError`` unless the archive was read to its end: a block of zeros."""
    stream.seek(offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it has no end marker, so members may be missing")
    if size - offset > PADDING_BYTES:
        raise tarfile.ReadError(
            f"{size - offset} bytes follow the end marker; archives joined by cat are read "
            "up to the first marker: join them by `tar --concatenate`"
        )


class _Samples:
    """Collects members until the key changes."""

    def __init__(self, source: ScanSource) -> None:
        self._source = source
        self._key: str | None = None
        self._members: list[Member] = []
        self._doubt: str | None = None
        self.count = 0

    def add(self, entry: tarfile.TarInfo) -> Iterator[SampleLocation]:
        """Take in a member; yields the sample before it if that is complete now."""
        key, extension = _split_name(entry.name)
        if not extension:
            return
        if key != self._key:
            yield from self.finish()
            self._key = key
        self._take(entry, extension)

    def finish(self) -> Iterator[SampleLocation]:
        """Yield the sample collected so far, if any."""
        if self._members:
            yield self._sample()
            self.count += 1
        self._members, self._doubt = [], None

    def _take(self, entry: tarfile.TarInfo, extension: str) -> None:
        if len(self._members) == MEMBERS:
            self._doubt = f"more than {MEMBERS} members have its key"
            return
        if any(member.name == extension for member in self._members):
            self._doubt = f"two members named .{extension}"
            return
        field, taken = member_field(extension), {member.field for member in self._members}
        if field in taken:
            field = extension
        if field in taken:
            self._doubt = f"member .{extension} and another are both its {field}"
            return
        if entry.issparse():
            self._doubt = f"member .{extension} is stored sparse; write the shard without --sparse"
        self._members.append(
            Member(field=field, name=extension, offset=entry.offset_data, length=entry.size)
        )

    def _sample(self) -> SampleLocation:
        file, members = self._source.file, tuple(self._members)
        kind = leading_kind({member.field for member in members})
        headers = self._headers(kind)
        return self._source.sample(
            key=f"{file.path}#{self._key}",
            kind=kind,
            container="tar",
            offset=members[0].offset,
            length=sum(member.length for member in members),
            members=members,
            row=self.count,
            headers=replace(headers, broken=self._doubt or headers.broken),
        )

    def _headers(self, kind: Kind) -> Headers:
        main = [member for member in self._members if shared_name(member.field) == kind]
        if kind in ("text", "other"):
            return Headers(cost_s=text_cost(sum(member.length for member in main)))
        return joint({m.field: self._source.probe(kind, m.offset, m.length) for m in main})


def _split_name(name: str) -> tuple[str, str]:
    folder, _, last = name.rpartition("/")
    stem, _, extension = last.partition(".")
    key = f"{folder}/{stem}" if folder else stem
    return key, extension.lower() if stem else ""
