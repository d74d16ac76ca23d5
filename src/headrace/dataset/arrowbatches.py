"""Decodes single record batches of Arrow files and streams.

A batch is decoded from its own message and the head of its file: the schema, and the dictionaries,
which all come before the first batch.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from headrace.core.errors import CorruptDataError
from headrace.dataset.arrowmessages import DICTIONARY, RECORD_BATCH, SCHEMA, Message, messages
from headrace.dataset.leaves import require_distinct

HEAD_BYTES = 256 * 1024 * 1024
"""Largest schema with its dictionaries, as it is and decompressed [bytes]."""

BATCH_BYTES = 512 * 1024 * 1024
"""Largest record batch, as it is and decompressed [bytes]."""

_I64 = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class ArrowHead:
    """What a record batch cannot be decoded without."""

    data: bytes
    """Schema and dictionaries, as they are in the file."""

    schema: pa.Schema


def read_head(stream: BinaryIO, size: int) -> ArrowHead:
    """Return the head of a file or stream of ``size`` bytes.

    Raises:
        CorruptDataError: it is neither, or its head is damaged or too large.
    """
    begin = end = 0
    for message in messages(stream, size):
        if message.kind == RECORD_BATCH:
            break
        if message.kind == SCHEMA:
            begin = message.begin
        end = message.end
        _require_room(stream, message, end - begin)
    stream.seek(begin)
    data = stream.read(end - begin)
    try:
        schema = pa.ipc.open_stream(pa.BufferReader(data)).schema
        require_distinct(schema)
        return ArrowHead(data, schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptDataError(f"it is no Arrow file that can be read: {error}") from error


def record_batches(stream: BinaryIO, size: int) -> Iterator[Message]:
    """Yield the messages of a file's record batches.

    Raises:
        CorruptDataError: the file is damaged here, or a batch cannot be decoded by itself.
    """
    seen = False
    stream.seek(0)
    for message in messages(stream, size):
        if message.kind == RECORD_BATCH:
            seen = True
            yield message
        elif message.kind == DICTIONARY and seen:
            raise CorruptDataError(
                "a dictionary follows a record batch; write it as a file with unified dictionaries"
            )


def message_bytes(stream: BinaryIO, message: Message) -> bytes:
    """Return the bytes of a record batch's message.

    Raises:
        CorruptDataError: they are more than ``BATCH_BYTES``, or will be.
    """
    _require_size(message.end - message.begin)
    stream.seek(message.begin)
    data = stream.read(message.end - message.begin)
    _require_size(_decoded_bytes(message, memoryview(data)[message.body - message.begin :]))
    return data


def read_batch(head: ArrowHead, data: bytes, columns: Sequence[str]) -> pa.RecordBatch:
    """Decode some columns of a record batch.

    Args:
        head: That of its file.
        data: The bytes of the batch's message.
        columns: Names of columns, or paths of leaves below them.

    Raises:
        CorruptDataError: it is damaged, or larger than ``BATCH_BYTES``.
    """
    stream = io.BytesIO(data)
    for message in messages(stream, len(data)):
        return decoded_batch(
            head, pa.py_buffer(head.data + message_bytes(stream, message)), columns
        )
    raise CorruptDataError("there is no record batch where one was")


def decoded_batch(head: ArrowHead, stream: pa.Buffer, columns: Sequence[str]) -> pa.RecordBatch:
    """Decode some columns of the one record batch of a stream, which begins with the head.

    Values that are not compressed are views of the stream.

    Raises:
        CorruptDataError: it is damaged.
    """
    names = {name for name in head.schema.names for path in columns if _is_below(path, name)}
    fields = [place for place, name in enumerate(head.schema.names) if name in names]
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    try:
        batch = pa.ipc.open_stream(pa.BufferReader(stream), options=options).read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, StopIteration, OSError, ValueError) as error:
        raise CorruptDataError(f"a record batch is damaged: {error}") from error
    return batch


def _is_below(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def _require_size(length: int) -> None:
    if length > BATCH_BYTES:
        raise CorruptDataError(
            f"a record batch of {length >> 20} MiB is larger than {BATCH_BYTES >> 20} MiB; write "
            "the file with fewer rows in each"
        )


def _require_room(stream: BinaryIO, message: Message, length: int) -> None:
    decoded = 0
    if message.is_compressed and length <= HEAD_BYTES:
        stream.seek(message.body)
        decoded = _decoded_bytes(message, memoryview(stream.read(message.end - message.body)))
    if max(length, decoded) > HEAD_BYTES:
        raise CorruptDataError(f"its dictionaries are larger than {HEAD_BYTES >> 20} MiB")


def _decoded_bytes(message: Message, body: memoryview) -> int:
    """Return how many bytes the buffers of a batch have: compressed ones begin with a length."""
    if not message.is_compressed:
        return 0
    heads = (body[offset : offset + _I64.size] for offset, _ in message.buffers if offset >= 0)
    lengths = (_I64.unpack(head)[0] for head in heads if len(head) == _I64.size)
    return sum(max(0, length) for length in lengths)
