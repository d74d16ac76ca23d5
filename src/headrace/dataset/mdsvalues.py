"""The encodings of MDS columns. Lists become several values; pickles are not read."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable

import numpy as np
from PIL import Image

from headrace.core.errors import CorruptDataError
from headrace.core.record import AnyArray, Value
from headrace.dataset.digits import whole_number

_DTYPE_OF_CODE = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_DTYPES = frozenset(_DTYPE_OF_CODE.values())

_BYTES_PER_PIXEL = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}
_PIL_HEAD = struct.Struct("<III")

LISTS = {
    "list[jpeg]": "jpeg",
    "list[png]": "png",
    "list[pil]": "pil",
    "jpeg_array": "jpeg",
    "jpegarray": "jpeg",
}
"""Encoding of a list → encoding of each of its values."""

PICTURES = frozenset({"jpeg", "png", "pil"})
"""Encodings of one picture."""


def is_known(encoding: str) -> bool:
    """Whether values of an encoding can be read."""
    name, _, rest = encoding.partition(":")
    if name == "ndarray":
        return _is_array(rest)
    return not rest and (name in LISTS or name in _DECODERS)


def is_integer(encoding: str) -> bool:
    """Whether an encoding holds whole numbers."""
    return encoding in ("int", "str_int") or (
        encoding in _DTYPES and np.dtype(encoding).kind in "iu"
    )


def mds_value(encoding: str, data: bytes) -> Value:
    """Return the value of one column.

    Numbers become int and float (``uint64`` an array without axes), ``str``, ``json`` and
    ``str_decimal`` str, ``ndarray`` an array of its own shape. Pictures stay encoded; raw pixels
    (``pil``) become a picture without compression.

    Raises:
        ValueError: the bytes are not in this encoding.
        LookupError: as ``ValueError``.
        CorruptDataError: as ``ValueError``.
    """
    name, _, rest = encoding.partition(":")
    return _array(rest, data) if name == "ndarray" else _DECODERS[name](data)


def _same(data: bytes) -> Value:
    return data


def _number(dtype: str) -> Callable[[bytes], Value]:
    little = np.dtype(dtype).newbyteorder("<")

    def decode(data: bytes) -> Value:
        if len(data) != little.itemsize:
            raise ValueError(f"{len(data)} bytes are no {dtype}")
        found = np.frombuffer(data, little).astype(dtype).reshape(())
        number: int | float = found.item()
        return found if dtype == "uint64" else number  # an int has a sign, and 63 bits besides

    return decode


def picture_head(head: bytes, length: int) -> tuple[int, int]:
    """Return width and height of a picture of raw pixels [px].

    Args:
        head: Its first bytes.
        length: All its bytes.

    Raises:
        CorruptDataError: its mode is not known, or it has another length than such a picture.
    """
    width, height, _, _ = _pixels(head, length)
    return width, height


def _pixels(head: bytes, length: int) -> tuple[int, int, str, int]:
    """Return width, height and mode of raw pixels, and where they begin."""
    if len(head) < _PIL_HEAD.size:
        raise CorruptDataError("it ends inside the head of a picture")
    width, height, mode_bytes = _PIL_HEAD.unpack_from(head)
    begin = _PIL_HEAD.size + mode_bytes
    mode = head[_PIL_HEAD.size : begin].decode("ascii", "replace")
    if mode not in _BYTES_PER_PIXEL:
        raise CorruptDataError(f"pixels of mode {mode[:20]!r} are not known; write them as png")
    if not 0 < width * height * _BYTES_PER_PIXEL[mode] == length - begin:
        raise CorruptDataError(
            f"{length - begin} bytes are no {width} x {height} pixels of mode {mode}"
        )
    return width, height, mode, begin


def _picture(data: bytes) -> Value:
    """Turn raw pixels into a picture that any decoder of pictures reads."""
    width, height, mode, begin = _pixels(data, len(data))
    target = io.BytesIO()
    Image.frombytes(mode, (width, height), data[begin:]).save(target, "TIFF")
    return target.getvalue()


def _is_array(rest: str) -> bool:
    dtype, _, shape = rest.partition(":")
    sizes = shape.split(",") if shape else []
    return (not dtype or dtype in _DTYPES) and all(n.isdecimal() and len(n) < 10 for n in sizes)


def _array(rest: str, data: bytes) -> AnyArray:
    dtype, _, dims = rest.partition(":")
    at = 0
    if not dtype:
        dtype, at = _DTYPE_OF_CODE[data[0]], 1
    if dims:
        shape = tuple(map(int, dims.split(",")))
    else:
        axes, size = data[at] >> 2, 1 << data[at] % 4
        begin, at = at + 1, at + 1 + axes * size
        shape = tuple(np.frombuffer(data[begin:at], f"<u{size}").tolist())
    little = np.dtype(dtype).newbyteorder("<")
    if math.prod(shape) * little.itemsize != len(data) - at:
        raise ValueError(f"{len(data) - at} bytes are no {dtype} array of shape {shape}")
    return np.frombuffer(data, little, offset=at).astype(dtype).reshape(shape)


_DECODERS: dict[str, Callable[[bytes], Value]] = {
    "bytes": _same,
    "jpeg": _same,
    "png": _same,
    "pil": _picture,
    "str": bytes.decode,
    "json": bytes.decode,
    "str_decimal": bytes.decode,
    "str_int": whole_number,
    "str_float": float,
    "int": _number("int64"),
    **{dtype: _number(dtype) for dtype in _DTYPES},
}
