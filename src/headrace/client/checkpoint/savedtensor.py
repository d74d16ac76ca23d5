"""Finds the numbers inside a tensor that ``torch.save`` wrote, from its first bytes alone.

``torch.load`` needs the whole file, takes 90 µs for the smallest tensor, and cannot read rows.
Here a tensor is described by what precedes its numbers, which is the same for all tensors of one
type and shape. Only the one form that plain tensors have is understood; whatever else there is
(other options, other versions, damage) is left to ``torch.load``. Nothing is executed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

HEAD_BYTES = 4096
"""Enough to find the numbers of any tensor of up to a hundred dimensions [bytes]."""


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """Where and how the numbers of a tensor lie."""

    dtype: str
    """As torch calls it, such as ``bfloat16``."""

    itemsize: int
    """Of one number [bytes]."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Numbers between neighbours along each dimension, 0 or more."""

    start: int
    """Where the first number lies [bytes from the beginning of what ``torch.save`` wrote]."""

    def span(self, offsets: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[int, int]:
        """Return first and last-but-one byte of a box of the tensor, counted as ``start`` is.

        Args:
            offsets: Where the box begins, for each dimension.
            lengths: How long it is; the box lies in the tensor.
        """
        if 0 in lengths:
            return self.start, self.start
        first = _dot(offsets, self.strides)
        last = first + _dot([length - 1 for length in lengths], self.strides)
        return self.start + first * self.itemsize, self.start + (last + 1) * self.itemsize


def parse_head(head: bytes | memoryview) -> SavedTensor | None:
    """Describe the tensor that begins with these bytes; None: ``torch.load`` has to read it.

    Args:
        head: Of one ``torch.save`` file: ``HEAD_BYTES``, or all if it is shorter.
    """
    begin = bytes(head[:HEAD_BYTES])
    record = _NUMBERS.search(begin)
    if record is None:
        return None
    name_bytes, extra_bytes = struct.unpack_from("<HH", begin, record.start() + 26)
    start = record.end() + extra_bytes
    is_whole = record.end() == record.start() + 30 + name_bytes and start <= len(begin)
    return _parse(begin[:start]) if is_whole else None


_RECORD = rb"PK\x03\x04.{4}\x00\x00.{20}[^/]{1,64}/"
"""A file in the archive that is stored as it is."""

_NUMBERS = re.compile(_RECORD + rb"data/0", re.DOTALL)
_BYTE_ORDER = re.compile(_RECORD + rb"byteorder(?:FB.{2,80}?)?little", re.DOTALL)

_INT = rb"(?:K.|M..|J....|\x8a\x05.{5})"
_MEMO = rb"(?:q.)?"
_INTS = (
    rb"(\)|" + _INT + rb"\x85|" + _INT * 2 + rb"\x86|" + _INT * 3 + rb"\x87|"
    rb"\((?:" + _INT + rb"){4,100}t)" + _MEMO
)
_TENSOR = re.compile(
    rb"\x80\x02ctorch\._utils\n_rebuild_tensor_(?:v2|v3)\n" + _MEMO + rb"\(\("
    rb"X\x07\x00\x00\x00storage" + _MEMO + rb"ctorch(?:\.storage)?\n(\w+)Storage\n" + _MEMO
    + rb"X\x01\x00\x00\x000" + _MEMO + rb"X\x03\x00\x00\x00cpu" + _MEMO
    + rb"(" + _INT + rb")t" + _MEMO + rb"Q"
    rb"(" + _INT + rb")" + _INTS + _INTS
    + rb"\x89ccollections\nOrderedDict\n" + _MEMO + rb"\)R" + _MEMO
    + rb"(?:ctorch\n(\w+)\n" + _MEMO + rb")?"
    rb"t" + _MEMO + rb"R" + _MEMO + rb"\.",
    re.DOTALL,
)  # fmt: skip
"""The pickle of a tensor on the CPU that needs no gradient and has no flags."""


@lru_cache(maxsize=4096)
def _parse(head: bytes) -> SavedTensor | None:
    """Describe a tensor by all that precedes its numbers."""
    match = _TENSOR.search(head)
    if match is None or not _BYTE_ORDER.search(head):
        return None
    storage, count, offset, shape, strides, dtype = match.groups()
    kind = _STORAGES.get(storage.decode()) if dtype is None else dtype.decode()
    if kind is None or kind not in _ITEM_BYTES:
        return None
    itemsize = _ITEM_BYTES[kind]
    tensor = SavedTensor(
        kind, itemsize, _ints(shape), _ints(strides), len(head) + _int(offset) * itemsize
    )
    stored_bytes = _int(count) * (itemsize if dtype is None else 1)
    return tensor if _is_sound(tensor, len(head), len(head) + stored_bytes) else None


def _is_sound(tensor: SavedTensor, begin: int, end: int) -> bool:
    """Tell whether all numbers lie in what is stored, from ``begin`` up to ``end``."""
    if len(tensor.shape) != len(tensor.strides) or min((*tensor.shape, *tensor.strides, 0)) < 0:
        return False
    if tensor.start < begin:
        return False
    return tensor.span((0,) * len(tensor.shape), tensor.shape)[1] <= end


def _int(code: bytes) -> int:
    digits = code[2:] if code[:1] == b"\x8a" else code[1:]
    return int.from_bytes(digits, "little", signed=code[0] in b"J\x8a")


def _ints(code: bytes) -> tuple[int, ...]:
    return tuple(_int(one) for one in re.findall(_INT, code, re.DOTALL))


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


_STORAGES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
"""Types by the names that pickles have for memory of them."""

_ITEM_BYTES = {
    "uint8": 1, "int8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2,
    "float32": 4, "int32": 4, "uint32": 4,
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip
"""Bytes of one number of each type that is understood."""
