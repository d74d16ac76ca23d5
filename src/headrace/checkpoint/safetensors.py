"""Safetensors files: a strict reader of their headers.

A file is an 8-byte little-endian length, a JSON header of that length, and the tensors' bytes.
The reference implementation (the ``safetensors`` package) decides what is valid; whatever is
accepted here is accepted there and means the same. Refused beyond it, because two readers could
understand it differently: a name that occurs twice, a field the format does not have, and a
header that does not begin with ``{``. Like the reference, nothing is asked of alignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.checkpoint.jsonobject import is_unicode, parse_object, shown
from headrace.core.digest import Buffer
from headrace.core.errors import CorruptDataError
from headrace.storage.port import FileInfo, Storage

MOST_HEADER_BYTES = 100_000_000
"""The format's own limit [bytes]."""

HEAD_BYTES = 256 << 10
"""Read at once in the hope that the header is in it [bytes]: an entry takes some 110 bytes, so
those of more than two thousand tensors are, and it costs little more time than 8 bytes do."""

LENGTH_BYTES = 8
"""Of the length of the header, with which a file begins."""

_MOST_COUNT = 1 << 64
_MOST_DIGITS = 20
_FIELDS = frozenset({"dtype", "shape", "data_offsets"})
PARALLEL_HEADERS = 16
"""Files whose headers are read at the same time."""


class ShortFileError(CorruptDataError):
    """A file ends before what its header names: it is still being written, or was cut off."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """A type of numbers of the format."""

    bits: int
    """Of one number."""

    torch_name: str
    """As torch calls it, or would call it: it has none with 6 bits."""


DTYPES: Mapping[str, Dtype] = {
    "BOOL": Dtype(8, "bool"),
    "F4": Dtype(4, "float4_e2m1fn_x2"),
    "F6_E2M3": Dtype(6, "float6_e2m3fn"),
    "F6_E3M2": Dtype(6, "float6_e3m2fn"),
    "U8": Dtype(8, "uint8"),
    "I8": Dtype(8, "int8"),
    "F8_E5M2": Dtype(8, "float8_e5m2"),
    "F8_E4M3": Dtype(8, "float8_e4m3fn"),
    "F8_E8M0": Dtype(8, "float8_e8m0fnu"),
    "F8_E4M3FNUZ": Dtype(8, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": Dtype(8, "float8_e5m2fnuz"),
    "I16": Dtype(16, "int16"),
    "U16": Dtype(16, "uint16"),
    "F16": Dtype(16, "float16"),
    "BF16": Dtype(16, "bfloat16"),
    "I32": Dtype(32, "int32"),
    "U32": Dtype(32, "uint32"),
    "F32": Dtype(32, "float32"),
    "C64": Dtype(64, "complex64"),
    "F64": Dtype(64, "float64"),
    "I64": Dtype(64, "int64"),
    "U64": Dtype(64, "uint64"),
}
"""By the name that a header gives them."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as a header describes it."""

    name: str
    dtype: str
    """A key of ``DTYPES``."""

    shape: tuple[int, ...]
    offset: int
    """Of its first byte, from the beginning of the file."""

    length: int
    """[bytes]; rows lie one after the other, little-endian."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file's header tells."""

    tensors: tuple[TensorEntry, ...]
    """By offset."""

    metadata: Mapping[str, str] | None
    """The texts under ``__metadata__``; None: it has none."""

    length: int
    """Of the header with its length in front: where the tensors' bytes begin."""


def header_length(head: Buffer, *, file: str, size: int) -> int:
    """Return how many bytes of a file its header takes, with the 8 of its length.

    Args:
        head: The file's first bytes, at least 8 where it has so many.
        file: What it is called in errors.
        size: Of the whole file [bytes].

    Raises:
        ShortFileError: the header does not end within the file.
        CorruptDataError: its length is beyond the format's limit.
    """
    if size < LENGTH_BYTES:
        raise ShortFileError(f"{file} has {size} bytes, the length of a header takes 8")
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if length > MOST_HEADER_BYTES:
        _refuse(file, f"claims a header of {length} bytes, the limit is {MOST_HEADER_BYTES}")
    if length > size - LENGTH_BYTES:
        raise ShortFileError(
            f"{file} has {size} bytes and claims a header of {length}; is it still being written, "
            "or was it cut off?"
        )
    return LENGTH_BYTES + length


def parse_header(head: Buffer, *, file: str, size: int) -> Header:
    """Return what a header says once all of it is checked.

    Args:
        head: The file's first bytes, at least as many as ``header_length`` says.
        file: What it is called in errors.
        size: Of the whole file [bytes].

    Raises:
        ShortFileError: the file ends before the last tensor does.
        CorruptDataError: something is wrong; says in which file, at which tensor, and what.
    """
    end = header_length(head, file=file, size=size)
    document = parse_object(bytes(head[LENGTH_BYTES:end]), file=file, what="header", count=_count)
    metadata = _metadata(document.pop("__metadata__", None), file)
    entries = [_entry(name, fields, end, file) for name, fields in document.items()]
    entries.sort(key=lambda entry: (entry.offset, entry.length))
    _require_gapless(entries, end, size, file)
    return Header(tuple(entries), metadata, end)


def read_header(storage: Storage, file: FileInfo) -> Header:
    """Read and check one file's header, in one request unless it is very large.

    Args:
        storage: Where it is.
        file: The file, its path relative to the storage's root.

    Raises:
        CorruptDataError: as ``parse_header``.
        StorageError: it cannot be read.
    """
    head = storage.read(file.path, 0, min(HEAD_BYTES, file.size))
    end = header_length(head, file=file.path, size=file.size)
    if end > len(head):
        head += storage.read(file.path, len(head), end - len(head))
    return parse_header(head, file=file.path, size=file.size)


def read_headers(storage: Storage, files: Sequence[FileInfo]) -> list[Header]:
    """Read several files' headers, some at a time, in the files' order.

    Raises:
        CorruptDataError: as ``parse_header``; of the first file that is damaged.
        StorageError: one cannot be read.
    """
    if len(files) < 2:
        return [read_header(storage, file) for file in files]
    with ThreadPoolExecutor(min(PARALLEL_HEADERS, len(files))) as pool:
        return list(pool.map(lambda file: read_header(storage, file), files))


def _count(digits: str) -> int:
    count = int(digits) if len(digits) <= _MOST_DIGITS and digits[0] != "-" else _MOST_COUNT
    if count >= _MOST_COUNT:
        raise ValueError(f"{digits[:40]} is no count of elements or bytes")
    return count


def _metadata(found: Any, file: str) -> Mapping[str, str] | None:
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        _refuse(file, "its __metadata__ must map texts to texts")
    if not all(is_unicode(key) and is_unicode(text) for key, text in found.items()):
        _refuse(file, "its __metadata__ has a text that is no Unicode")
    return found


def _entry(name: str, fields: Any, data_begin: int, file: str) -> TensorEntry:
    if not is_unicode(name):
        _refuse(file, f"tensor {shown(name)}: its name is no Unicode")
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        _refuse(file, f"tensor {shown(name)} must have dtype, shape and data_offsets, and no more")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        _refuse(file, f"tensor {shown(name)}: {shown(dtype)} is no dtype of the format")
    if not _are_counts(shape):
        _refuse(file, f"tensor {shown(name)}: its shape is no list of counts")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(file, f"tensor {shown(name)}: its data_offsets are no pair of rising offsets")
    length = offsets[1] - offsets[0]
    needed = _needed(shape, DTYPES[dtype].bits)
    if needed != length:
        _refuse(
            file,
            f"tensor {shown(name)}: {dtype} of shape {_short(shape)} "
            f"{_takes(needed)}, its data_offsets hold {length} bytes",
        )
    return TensorEntry(name, dtype, tuple(shape), data_begin + offsets[0], length)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(count) is int for count in value)


def _needed(shape: list[int], bits: int) -> int | None:
    """Return how many bytes such a tensor takes; None: a number that no machine can hold.

    Multiplied from the left, and stopped where 64 bits are left, as the reference does: a later
    zero does not make up for it.
    """
    product = 1
    for count in (*shape, bits):
        product *= count
        if product >= _MOST_COUNT:
            return None
    return product // 8 if product % 8 == 0 else None


def _takes(needed: int | None) -> str:
    return (
        "takes no whole number of bytes below 2^64" if needed is None else f"takes {needed} bytes"
    )


def _short(shape: list[int]) -> str:
    return str(shape) if len(shape) <= 8 else f"[{', '.join(map(str, shape[:8]))}, …]"


def _require_gapless(entries: Sequence[TensorEntry], begin: int, size: int, file: str) -> None:
    """Refuse holes and overlaps: the tensors must fill the file from the header to the end."""
    for entry in entries:
        if entry.offset != begin:
            kind = "overlaps what is before it" if entry.offset < begin else "leaves a hole"
            _refuse(
                file,
                f"tensor {shown(entry.name)} {kind}: it begins at byte {entry.offset} of the "
                f"file, {begin} is next",
            )
        begin += entry.length
    if begin > size:
        raise ShortFileError(
            f"{file} has {size} bytes and its tensors end at {begin}; is it still being written, "
            "or was it cut off?"
        )
    if begin < size:
        _refuse(file, f"its tensors end at byte {begin}, {size - begin} more follow")


def _refuse(file: str, why: str) -> NoReturn:
    raise CorruptDataError(f"{file}: {why}; copy or save it again")
