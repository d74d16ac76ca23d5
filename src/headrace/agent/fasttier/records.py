"""One sample's encoded fields as a record in the fast tier's file, checked whenever it is read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.agent.arena import Extent
from headrace.agent.fasttier.file import FastFiles
from headrace.core.digest import payload_digest

OVERHEAD_BYTES = 256
"""Most that names and lengths add to a sample's encoded bytes [bytes]."""

Fields = dict[str, bytes]
"""Encoded bytes by field, as a raw frame carries them."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What was written for one sample."""

    nbytes: int
    digest: int
    """XXH3-64 of the record."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Where a sample's record lies, and what it must be."""

    extents: tuple[Extent, ...]
    nbytes: int
    digest: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Fields)


def write_record(files: FastFiles, extents: Sequence[Extent], fields: Fields) -> Stored | None:
    """Write a sample's record over ``extents``; None: it is larger, and nothing was written.

    Raises:
        OSError: the disk is full, or failed.
    """
    record = memoryview(_encoder.encode(fields))
    if record.nbytes > sum(extent.length for extent in extents):
        return None
    stored = Stored(nbytes=record.nbytes, digest=payload_digest([record]))
    for extent in extents:
        files.write(extent, record[: extent.length])
        record = record[extent.length :]
    return stored


def read_record(files: FastFiles, kept: Kept) -> Fields | None:
    """Return a sample's fields; None: the bytes are not those that were written.

    Raises:
        OSError: the disk failed.
    """
    left, parts = kept.nbytes, []
    for extent in kept.extents:
        parts.append(files.read(extent, left))
        left -= len(parts[-1])
    record = parts[0] if len(parts) == 1 else b"".join(parts)
    if left or payload_digest([record]) != kept.digest:
        return None
    return _decoder.decode(record)
