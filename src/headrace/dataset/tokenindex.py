"""Reads the ``.idx`` of Megatron's token files: which sequences and documents a ``.bin`` holds.

Two layouts are around. ``MMIDIDX``, which Megatron-LM and Megatron Core write, has per sequence
its tokens (int32) and its first byte (int64), then the sequences at which documents begin (int64),
with one more for the end, and in multimodal files a mode per sequence (int8). ``TNTIDX``, which
the ``lazy`` and ``cached`` datasets of older ones wrote, has offsets in tokens instead.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.core.errors import CorruptDataError

Longs = npt.NDArray[np.int64]

_MMIDIDX, _TNTIDX = b"MMIDIDX\x00\x00", b"TNTIDX\x00\x00"
_MMIDIDX_HEAD = struct.Struct("<9sQBQQ")
_TNTIDX_HEAD = struct.Struct("<8sQQQQQQ")
_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
_FLOATS = {6, 7}


@dataclass(frozen=True, slots=True)
class TokenIndex:
    """The sequences and documents of one ``.bin``."""

    dtype: str
    """NumPy's name of a token's type; its bytes are in little-endian order."""

    lengths: Longs
    """Tokens of each sequence, ``int64 [sequences]``."""

    pointers: Longs
    """First byte of each sequence in the ``.bin``, ``int64 [sequences]``."""

    documents: Longs
    """First sequence of each document, and the end of the last, ``int64 [documents + 1]``."""

    @property
    def token_bytes(self) -> int:
        """Return how long a token is [bytes]."""
        return int(np.dtype(self.dtype).itemsize)


def read_token_index(data: bytes, bin_bytes: int) -> TokenIndex:
    """Read an ``.idx``.

    Args:
        data: The whole file.
        bin_bytes: Size of the ``.bin`` that belongs to it [bytes].

    Raises:
        CorruptDataError: it is none, or tells of more than there is.
    """
    if data.startswith(_MMIDIDX):
        index = _read_mmididx(data, bin_bytes)
    elif data.startswith(_TNTIDX):
        index = _read_tntidx(data, bin_bytes)
    else:
        raise CorruptDataError("the .idx beside it is not one of Megatron's")
    _require_sound(index, bin_bytes)
    return index


def _read_mmididx(data: bytes, bin_bytes: int) -> TokenIndex:
    _, version, code, sequences, documents = _head(_MMIDIDX_HEAD, data)
    size = _MMIDIDX_HEAD.size + 12 * sequences + 8 * documents
    _require_size(version, data, size, size + sequences)
    at = _MMIDIDX_HEAD.size
    lengths = np.frombuffer(data, "<i4", sequences, at).astype(np.int64)
    pointers = np.frombuffer(data, "<i8", sequences, at + 4 * sequences)
    starts = np.frombuffer(data, "<i8", documents, at + 12 * sequences)
    return TokenIndex(_dtype(code, bin_bytes, lengths), lengths, pointers, starts)


def _read_tntidx(data: bytes, bin_bytes: int) -> TokenIndex:
    _, version, code, token_bytes, sequences, sizes, documents = _head(_TNTIDX_HEAD, data)
    at = _TNTIDX_HEAD.size
    size = at + 8 * (2 * (sequences + 1) + sizes + documents)
    _require_size(version, data, size, size)
    offsets = np.frombuffer(data, "<i8", sequences + 1, at + 8 * (sequences + 1))
    starts = np.frombuffer(data, "<i8", documents, size - 8 * documents)
    lengths = np.diff(offsets)
    dtype = _dtype(code, bin_bytes, lengths)
    if np.dtype(dtype).itemsize != token_bytes:
        raise CorruptDataError(f"the .idx says {token_bytes} bytes a token, and type {dtype}")
    return TokenIndex(dtype, lengths, offsets[:-1] * token_bytes, starts)


def _head(head: struct.Struct, data: bytes) -> tuple[int, ...]:
    if len(data) < head.size:
        raise CorruptDataError("the .idx ends inside its head")
    return head.unpack_from(data)


def _require_size(version: int, data: bytes, *sizes: int) -> None:
    if version != 1:
        raise CorruptDataError(f"the .idx has version {version}; only 1 is known")
    if len(data) not in sizes:
        raise CorruptDataError(
            f"the .idx has {len(data)} bytes, its counts of sequences and documents say {sizes[0]}"
        )


def _dtype(code: int, bin_bytes: int, lengths: Longs) -> str:
    if code in _FLOATS:  # which of the two is which differs between versions
        return "float64" if bin_bytes >= 8 * int(lengths.sum()) else "float32"
    if code not in _DTYPES:
        raise CorruptDataError(f"the .idx names type {code}; only 1 to 8 are known")
    return _DTYPES[code]


def _require_sound(index: TokenIndex, bin_bytes: int) -> None:
    lengths, pointers, documents = index.lengths, index.pointers, index.documents
    # Compared in tokens and by subtraction: sums of lying numbers could wrap around.
    limit = (bin_bytes - pointers) // index.token_bytes
    if lengths.size and ((lengths < 0) | (pointers < 0) | (lengths > limit)).any():
        raise CorruptDataError(
            f"the .idx places sequences outside of the {bin_bytes} bytes of the .bin; one of the "
            "two was cut or belongs to another"
        )
    end = int((pointers + lengths * index.token_bytes).max(initial=0))
    if end != bin_bytes:
        raise CorruptDataError(
            f"by the .idx the .bin ends at byte {end}, but it has {bin_bytes}; it belongs to "
            "another, or its tokens are of another type"
        )
    bounds = documents[:1].tolist() + documents[-1:].tolist()
    if bounds != [0, lengths.size] or (documents[1:] < documents[:-1]).any():
        raise CorruptDataError("the .idx does not part its sequences into documents")
