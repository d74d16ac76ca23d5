"""What is no frame is refused with a protocol error, whatever it claims."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from headrace.core.errors import ProtocolError
from headrace.wire.frames import (
    MAGIC,
    PREFIX,
    FieldHeader,
    FrameHeader,
    HeldStream,
    encode_frame,
    field_of,
    fresh_memory,
    pack_fields,
    read_frame,
    record_of,
)


def frame(payload: bytes, *fields: FieldHeader, header: bytes | None = None) -> bytes:
    if header is None:
        header = msgspec.json.encode(FrameHeader(kind="tensor", fields=fields))
    return PREFIX.pack(MAGIC, len(header), len(payload)) + header + payload


def field(dtype: str, nbytes: int, *shape: int) -> FieldHeader:
    return FieldHeader(name="image", dtype=dtype, shape=shape, nbytes=nbytes)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        frame(b"")[:-1],
        frame(b"", header=b"{not json"),
        frame(b"", header=b'{"more":' + b"[" * 100_000),
        frame(b"12", field("bytes", 3)),
        frame(b"", field("bytes", -2), field("bytes", 2)),
        frame(b"", field("|u1", -2, -2), field("|u1", 2, 2)),
        frame(b"1234", field("|u1", 4, 3)),
        frame(b"12345678", field("|O", 8, 1)),
        frame(b"12345678", field("no such type", 8, 1)),
        frame(b"12", field("bytes", 2)),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_frame(HeldStream(data), fresh_memory)


def test_every_kind_of_value_comes_back_as_it_was() -> None:
    record = {
        "image": np.arange(12, dtype=np.float32).reshape(3, 4), "none": np.empty((0, 3), np.uint8),
        "label": -7, "score": 0.5, "text": "ü", "raw": b"\x00\xff", "id": np.array(2**64 - 1, "u8"),
    }  # fmt: skip
    fields, payload = pack_fields(record)
    parts = encode_frame(FrameHeader(kind="tensor", fields=fields), payload)
    stream = HeldStream(b"".join(bytes(part) for part in parts))
    back = record_of(*read_frame(stream, fresh_memory))
    assert back.keys() == record.keys()
    for name, value in record.items():
        np.testing.assert_array_equal(back[name], value)
        assert np.shape(back[name]) == np.shape(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, np.array([object()])])
def test_what_cannot_travel_is_named(value: object) -> None:
    with pytest.raises(TypeError, match="'odd'"):
        field_of("odd", value)  # type: ignore[arg-type]
