"""Frames: the body of an answer to a fetch, one sample each.

A frame is a 16-byte prefix, a JSON header and a payload:

====== ===== ==========================================================
offset bytes content
====== ===== ==========================================================
0      4     ``HRF1``
4      4     header length, unsigned little-endian
8      8     payload length, unsigned little-endian
16     …     header, UTF-8 JSON (:class:`FrameHeader`)
…      …     payload: the fields' bytes one after another, no padding
====== ===== ==========================================================

The last frame of an answer has kind ``end``; an answer without it was cut off.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, Protocol

import msgspec
import numpy as np

from headrace.core.digest import Buffer, payload_digest
from headrace.core.errors import ProtocolError
from headrace.core.parts import WHOLE, SamplePart
from headrace.core.record import Record, Value

PREFIX = struct.Struct("<4sIQ")
MAGIC = b"HRF1"
MAX_HEADER_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 1 << 34

FrameKind = Literal["tensor", "raw", "missing", "held", "end"]


class FieldHeader(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a frame's payload."""

    name: str
    dtype: str
    """NumPy's name (``|u1``, ``<f4``), or ``bytes``, ``text``, ``int``, ``float``."""

    shape: tuple[int, ...]
    """Dimensions of an array; empty for everything else."""

    nbytes: int


class FrameHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a frame holds and what it took to make it."""

    kind: FrameKind
    """``tensor`` transformed to the cut; ``raw`` encoded bytes; ``missing`` see ``code``; ``held``
    no sample: the agent works on it, and what is late is held back by the job's quota."""

    sample: int = -1
    epoch: int = 0
    part: SamplePart = WHOLE
    """Which part of the sample it is. A part comes as ``tensor`` or ``missing``, never raw."""

    cut: int = 0
    """Leading ops already applied; the client goes on from there."""

    fields: tuple[FieldHeader, ...] = ()
    digest: int = 0
    """XXH3-64 of the payload."""

    queued_s: float = 0.0
    """How long it waited at the agent for others, from when it was asked for [s]."""

    cores_s: float = 0.0
    """How much of that it waited for cores: workers were on them with other samples, or in line for
    them [s]."""

    after_s: float | None = None
    """Time from being asked for to this frame [s]; what passes beyond it passes on the way. None:
    the agent does not say."""

    throttled_s: float = 0.0
    """How long reading it waited for the job's quota; no part of the other times [s]."""

    read_s: float = 0.0
    transform_s: float = 0.0
    cpu_s: float = 0.0
    """CPU that reading and transforming took at the agent [s]."""

    tier: str = ""
    """Tier of storage that its bytes came from; empty where the agent knows of none."""

    hit: bool = False
    """They came from the fast tier's cache instead of the place where the dataset lies."""

    has_cache: bool = False
    """The agent has such a cache in use: what is no hit missed it."""

    ready: bool = False
    """The sample lay ready when it was asked for."""

    shared: bool = False
    """It was made for another job: nothing was read for this one."""

    reason: str = ""
    """Why raw or missing, for people."""

    code: str = ""
    """Raw: ``busy``, ``late``, ``crashed``, ``asked``, ``raw-only``. Missing: ``corrupt``,
    ``unreadable``."""


class Stream(Protocol):
    """What frames are read from."""

    def take(self, count: int, /) -> memoryview:
        """Return the next bytes, valid until the next read; fewer only at the end."""
        ...

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill ``buffer``; fewer bytes only at the end."""
        ...


class HeldStream(io.BytesIO):
    """Frames that are already here."""

    def take(self, count: int, /) -> memoryview:
        """Return the next bytes; fewer only at the end."""
        return memoryview(self.read(count))


Allocate = Callable[[FrameHeader], Sequence[memoryview]]
"""Gives, for each field of a header, the memory its bytes are to be read into."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(FrameHeader)


def field_of(name: str, value: Value) -> tuple[FieldHeader, Buffer]:
    """Describe one value and give its bytes without copying an array's.

    Raises:
        TypeError: the value cannot travel (an open file, a Python object).
    """
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value).reshape(value.shape)  # it gives every array an axis
        if array.dtype.hasobject:
            raise TypeError(f"field {name!r} is an array of Python objects; give it a plain dtype")
        data: Buffer = array.reshape(-1).view(np.uint8).data if array.size else b""
        return FieldHeader(
            name=name, dtype=array.dtype.str, shape=array.shape, nbytes=array.nbytes
        ), data
    if isinstance(value, bytes):
        return FieldHeader(name=name, dtype="bytes", shape=(), nbytes=len(value)), value
    if isinstance(value, str):
        data = value.encode()
        return FieldHeader(name=name, dtype="text", shape=(), nbytes=len(data)), data
    if isinstance(value, int):
        data = value.to_bytes(8, "little", signed=True)
        return FieldHeader(name=name, dtype="int", shape=(), nbytes=8), data
    if isinstance(value, float):
        data = struct.pack("<d", value)
        return FieldHeader(name=name, dtype="float", shape=(), nbytes=8), data
    raise TypeError(f"field {name!r} is a {type(value).__name__} and cannot travel in a frame")


def value_of(field: FieldHeader, data: memoryview) -> Value:
    """Return the value that ``data`` holds; arrays are views of ``data``, not copies."""
    match field.dtype:
        case "bytes":
            return bytes(data)
        case "text":
            return str(data, "utf-8")
        case "int":
            return int.from_bytes(data, "little", signed=True)
        case "float":
            return float(struct.unpack("<d", data)[0])
        case name:
            return np.frombuffer(data, dtype=np.dtype(name)).reshape(field.shape)


def pack_fields(record: Record) -> tuple[tuple[FieldHeader, ...], list[Buffer]]:
    """Describe all fields of a record, in name order, and give their bytes."""
    pairs = [field_of(name, record[name]) for name in sorted(record)]
    return tuple(header for header, _ in pairs), [data for _, data in pairs]


def encode_frame(header: FrameHeader, payload: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return prefix + header, then the payload's own buffers, ready for a gathering write."""
    if payload:
        header = msgspec.structs.replace(header, digest=payload_digest(payload))
    return [encode_head(header), *payload]


def encode_head(header: FrameHeader) -> bytes:
    """Return prefix + header of a frame whose payload, and its digest, are already known."""
    text = _encoder.encode(header)
    return PREFIX.pack(MAGIC, len(text), sum(field.nbytes for field in header.fields)) + text


def read_frame(stream: Stream, allocate: Allocate) -> tuple[FrameHeader, Sequence[memoryview]]:
    """Read one frame straight into the memory that ``allocate`` gives.

    Raises:
        ProtocolError: the stream ends early, is not a sequence of frames, a length does not
            add up, or the payload's digest is not the header's.
    """
    header, payload_bytes = _read_header(stream)
    if sum([field.nbytes for field in header.fields]) != payload_bytes:
        raise ProtocolError(f"sample {header.sample}: the fields' lengths do not add up")
    if not header.fields:
        return header, ()
    buffers = allocate(header)
    for field, buffer in zip(header.fields, buffers, strict=True):
        if buffer.nbytes != field.nbytes:
            raise ValueError(f"{buffer.nbytes} B given for field {field.name!r} of {field.nbytes}")
        if stream.readinto(buffer) < field.nbytes:
            raise _cut_off()
    if payload_digest(buffers) != header.digest:
        raise ProtocolError(f"sample {header.sample}: the payload's digest is wrong")
    return header, buffers


def _read_header(stream: Stream) -> tuple[FrameHeader, int]:
    """Return a frame's header and the length of its payload."""
    prefix = stream.take(PREFIX.size)
    if len(prefix) < PREFIX.size:
        raise _cut_off()
    magic, header_bytes, payload_bytes = PREFIX.unpack(prefix)
    if magic != MAGIC or header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise ProtocolError(
            f"not a frame: it starts with {bytes(prefix)!r}; is the address an agent's?"
        )
    text = stream.take(header_bytes)
    if len(text) < header_bytes:
        raise _cut_off()
    return _decode_header(text), payload_bytes


def fresh_memory(header: FrameHeader) -> list[memoryview]:
    """Allocate new memory for every field; the plain choice for ``allocate``."""
    return [np.empty(field.nbytes, np.uint8).data for field in header.fields]


def record_of(header: FrameHeader, buffers: Sequence[memoryview]) -> Record:
    """Return the fields of a frame as a record whose arrays are views of ``buffers``."""
    return {
        field.name: value_of(field, data)
        for field, data in zip(header.fields, buffers, strict=True)
    }


def _decode_header(text: memoryview) -> FrameHeader:
    try:
        header = _decoder.decode(text)
        for field in header.fields:
            _check_field(field)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame's header cannot be read: {error}") from error
    return header


def _check_field(field: FieldHeader) -> None:
    if field.nbytes < 0 or (field.shape and min(field.shape) < 0):
        raise ValueError(f"field {field.name!r}: {field.nbytes} B of shape {field.shape}")
    if field.dtype in ("bytes", "text"):
        return
    expected = 8
    if field.dtype not in ("int", "float"):
        expected = math.prod(field.shape) * _item_bytes(field.dtype)
    if expected != field.nbytes:
        raise ValueError(f"field {field.name!r}: {field.nbytes} B for {field.dtype} {field.shape}")


@lru_cache(maxsize=64)
def _item_bytes(dtype: str) -> int:
    """Return the bytes of one item; the names that come are few, and NumPy parses slowly."""
    found = np.dtype(dtype)
    if found.hasobject:
        raise ValueError(f"{dtype} is an array of Python objects")
    return found.itemsize


def _cut_off() -> ProtocolError:
    return ProtocolError("the answer was cut off: the agent closed in the middle of a frame")
