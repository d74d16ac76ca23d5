"""Reads what a file of ``torch.save`` holds, without torch and without its tensors' bytes.

Such a file is an archive of one pickle and one record for each storage (``ziparchive``). The
pickle is read as data (``pickles``): tensors are told by where their bytes lie. What frameworks
put beside them (arguments, enumerations, loss scalers) is read as opaque; a name from anywhere
else is refused, for what loads the file in earnest might run it.

Source: ``torch.serialization``, ``torch._utils``; formats since torch 1.6.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NoReturn

from headrace.checkpoint.layout import Checkpoint, Piece
from headrace.checkpoint.pickles import Constant, Function, Known, Opaque, load
from headrace.checkpoint.ziparchive import ReadRange, Record, read_records
from headrace.core.errors import CorruptDataError
from headrace.storage.port import Storage

MOST_PICKLE_BYTES = 16 << 20
"""That of 50,000 tensors is as long; reading takes up to 100 times as much memory [bytes]."""

ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complex32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Of one number, by torch's name of its type [bytes]."""


_MOST_DIMENSIONS, _MOST_COUNT = 64, (1 << 63) - 1
_MOST_NAME, _MOST_KEY = 1000, 100
_PARALLEL_FILES = 16


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor and where its bytes lie in its file."""

    dtype: str
    """As torch calls it: a key of ``ITEM_BYTES``."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """[numbers]"""

    offset: int
    """Of its first number's first byte in the file."""

    length: int
    """Up to the end of its last number [bytes]."""


@dataclass(frozen=True, slots=True)
class TorchFile:
    """What a file of ``torch.save`` holds."""

    value: object
    """What was saved, with ``StoredTensor`` for each tensor, and ``Opaque`` for what is neither
    a tensor nor a plain value."""

    storages: Mapping[str, Record]
    """Where each storage's bytes lie, by its key."""

    pickle: Record

    def tensors(self) -> Iterator[tuple[str, StoredTensor]]:
        """Yield the tensors in all dictionaries, lists and tuples, with the keys that lead there.

        What is reached on several ways is yielded once. What lies so deep that its name had more
        than a thousand letters is left out.
        """
        waiting: list[tuple[str, Any]] = [("", self.value)]
        seen: set[int] = set()
        while waiting:
            name, value = waiting.pop()
            if isinstance(value, StoredTensor):
                yield name, value
            elif (
                isinstance(value, dict | list | tuple)
                and id(value) not in seen
                and len(name) <= _MOST_NAME
            ):
                seen.add(id(value))
                waiting.extend(reversed(_below(name, value)))


def read_torch_file(read: ReadRange, *, size: int, file: str) -> TorchFile:
    """Return what a file holds, in three or four reads.

    Args:
        read: Reads the file.
        size: Of the file [bytes].
        file: What it is called in errors.

    Raises:
        CorruptDataError: it is damaged, hostile, or not of ``torch.save``; says why.
    """
    records = read_records(read, size=size, file=file)
    root, pickle = _pickle(records, file)
    _require_little_endian(read, records.get(f"{root}byteorder"), file)
    prefix = f"{root}data/"
    storages = {
        name.removeprefix(prefix): record
        for name, record in records.items()
        if name.startswith(prefix)
    }
    data = bytes(read(pickle.offset, pickle.length))
    value = load(data, _TABLE, what=file, persistent=_Storages(storages, file).find)
    return TorchFile(value, storages, pickle)


def pieces_of(name: str, found: TorchFile) -> list[Piece]:
    """Return a file's tensors, storages of which no tensor is known, and its pickle, by offset.

    Tensors that share their bytes (tied weights) are one piece.

    Args:
        name: The file's, relative to its checkpoint.
        found: What it holds.
    """
    pieces: dict[tuple[int, int], Piece] = {}
    for tensor_name, tensor in found.tensors():
        piece = Piece(
            name=tensor_name or name,
            file=name,
            offset=tensor.offset,
            length=tensor.length,
            dtype=tensor.dtype,
            shape=tensor.shape,
            origin=(0,) * len(tensor.shape),
            whole=tensor.shape,
        )
        pieces.setdefault((tensor.offset, tensor.length), piece)
    starts = sorted((piece.offset, piece.offset + piece.length) for piece in pieces.values())
    for record in (*_unknown(found.storages, starts), found.pickle):
        pieces[record.offset, record.length] = Piece(
            name=record.name, file=name, offset=record.offset, length=record.length
        )
    return sorted(pieces.values(), key=lambda piece: (piece.offset, piece.length))


def pieces_of_files(storage: Storage, checkpoint: Checkpoint, names: Sequence[str]) -> list[Piece]:
    """Return the pieces of some of a checkpoint's files, which are of ``torch.save``.

    Args:
        storage: Where the checkpoint is.
        checkpoint: Whose files.
        names: Theirs, relative to its folder; some files are read at a time.

    Raises:
        CorruptDataError: a file is damaged or hostile; of the first such.
        StorageError: one cannot be read.
    """
    sizes = {file.path: file.size for file in checkpoint.files}

    def pieces(name: str) -> list[Piece]:
        path = checkpoint.file_path(name)
        read = partial(storage.read, path)
        return pieces_of(name, read_torch_file(read, size=sizes[name], file=path))

    with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
        return [piece for found in pool.map(pieces, sorted(names)) for piece in found]


def _below(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return what a dictionary, list or tuple holds, with the names that lead there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    named = ((_key_name(key, place), one) for place, (key, one) in enumerate(items))
    return [(f"{name}.{key}" if name else key, one) for key, one in named]


def _key_name(key: object, place: int) -> str:
    """Return a short name for a key, which may be anything; else that of its place."""
    if type(key) is str:
        return key[:_MOST_KEY]
    if type(key) is int and abs(key) <= _MOST_COUNT:
        return str(key)
    return f"#{place}"


def _unknown(storages: Mapping[str, Record], known: list[tuple[int, int]]) -> Iterator[Record]:
    """Yield the storages in which no known range of bytes, sorted, begins."""
    begins = [begin for begin, _ in known]
    for record in storages.values():
        at = bisect_left(begins, record.offset)
        if record.length and (at == len(begins) or begins[at] >= record.offset + record.length):
            yield record


def _pickle(records: Mapping[str, Record], file: str) -> tuple[str, Record]:
    """Return the folder of all records, with its slash, and the pickle's record."""
    first = next(iter(records), "")
    root = first[: first.find("/") + 1]
    pickle = records.get(f"{root}data.pkl")
    if not root or pickle is None or not all(name.startswith(root) for name in records):
        raise CorruptDataError(f"{file} is an archive, but not one that torch.save writes")
    if pickle.length > MOST_PICKLE_BYTES:
        raise CorruptDataError(
            f"{file}: its pickle has {pickle.length} bytes, at most {MOST_PICKLE_BYTES} are read; "
            "are there large arrays of numbers in it that should be tensors?"
        )
    return root, pickle


def _require_little_endian(read: ReadRange, record: Record | None, file: str) -> None:
    """Refuse a file of another byte order; those that do not tell are of torch before 2.1."""
    if record is not None and bytes(read(record.offset, min(record.length, 9))) != b"little":
        raise CorruptDataError(f"{file}: its numbers are not little-endian; save it on such a host")


@dataclass(frozen=True, slots=True, eq=False)
class _Storage:
    """Numbers of one type that lie one after the other in a file."""

    dtype: str
    offset: int
    length: int


class _Storages:
    """Finds what a pickle's persistent identities name: the storages of its archive."""

    def __init__(self, records: Mapping[str, Record], file: str) -> None:
        self._records = records
        self._file = file

    def find(self, identity: object) -> _Storage:
        """Return the storage that ``("storage", type, key, location, numbers)`` names."""
        if type(identity) is not tuple or len(identity) != 5 or identity[0] != "storage":
            self._refuse("something outside of it that is no storage")
        _, dtype, key, _, count = identity
        if type(dtype) is not _Dtype or type(key) is not str or type(count) is not int:
            self._refuse("a storage without type, key and length")
        record = self._records.get(key)
        if record is None:
            self._refuse(f"the storage {key[:99]!r} that is not there")
        if record.length != count * ITEM_BYTES[dtype.name]:
            self._refuse(f"{count} numbers of {dtype.name} in a storage of {record.length} bytes")
        return _Storage(dtype.name, record.offset, record.length)

    def _refuse(self, what: str) -> NoReturn:
        raise CorruptDataError(f"{self._file}: its pickle names {what}; use another checkpoint")


@dataclass(frozen=True, slots=True)
class _Dtype:
    """A type of numbers; not a text, so that no text can stand for it."""

    name: str


def _tensor(
    storage: object, start: object, shape: object, stride: object, *_: object
) -> StoredTensor:
    """Return what ``torch._utils._rebuild_tensor_v2`` and ``_v3`` make."""
    sizes, steps, first = _counts(shape), _counts(stride), _counts((start,))[0]
    if type(storage) is not _Storage or len(sizes) != len(steps):
        raise ValueError("a tensor is made of something else than a storage, a shape and strides")
    item = ITEM_BYTES[storage.dtype]
    last = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    length = (last + 1) * item if prod(sizes) else 0
    if first * item + length > storage.length:
        raise ValueError(f"a tensor of shape {sizes} lies beyond its storage")
    return StoredTensor(storage.dtype, sizes, steps, storage.offset + first * item, length)


def _retyped_tensor(
    storage: object, start: object, shape: object, stride: object, *rest: object
) -> StoredTensor:
    """Return what ``_rebuild_tensor_v3`` makes: bytes of a type that storages cannot have."""
    dtype = rest[2]
    if type(storage) is not _Storage or type(dtype) is not _Dtype:
        raise ValueError("a tensor is made of something else than a storage and a type")
    return _tensor(_Storage(dtype.name, storage.offset, storage.length), start, shape, stride)


def _counts(values: object) -> tuple[int, ...]:
    if type(values) is not tuple or len(values) > _MOST_DIMENSIONS:
        raise ValueError("a shape, strides or a start are no counts")
    if not all(type(count) is int and 0 <= count <= _MOST_COUNT for count in values):
        raise ValueError("a shape, strides or a start are no counts")
    return values


def _wrapped(data: object, *_: object) -> object:
    """Return the tensor in a parameter."""
    return data


def _subclassed(function: object, _kind: object, arguments: object, *_: object) -> object:
    """Return what ``torch._tensor._rebuild_from_type_v2`` makes, as a plain tensor."""
    if type(function) is Function and function.call in _MAKERS and type(arguments) is tuple:
        return function.call(*arguments)
    return Opaque("torch._tensor._rebuild_from_type_v2")


_MAKERS = frozenset({_tensor, _retyped_tensor, _wrapped})
_STORAGES = {
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
_PACKAGES = frozenset(
    {"torch", "numpy", "deepspeed", "megatron", "transformers", "accelerate", "apex"}
    | {"transformer_engine", "argparse", "collections", "enum", "pathlib", "datetime"}
)
"""Whatever is named in them is read as opaque: they are what checkpoints are written by."""

_NAMES = frozenset(
    {("_codecs", "encode"), ("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor")}
    | {
        (module, name)
        for module in ("builtins", "__builtin__")
        for name in (
            "set",
            "frozenset",
            "slice",
            "complex",
            "bytearray",
            "bytes",
            "range",
            "object",
            "list",
            "dict",
            "tuple",
            "int",
            "float",
            "bool",
            "str",
        )
    }
)


class _Table(Mapping[tuple[str, str], Known]):
    """What is known, and a stand-in for whatever else frameworks write."""

    def __init__(self, known: Mapping[tuple[str, str], Known]) -> None:
        self._known = known

    def __getitem__(self, name: tuple[str, str]) -> Known:
        known = self._known.get(name)
        if known is not None:
            return known
        if name in _NAMES or name[0].partition(".")[0] in _PACKAGES:
            return Constant(Opaque(".".join(name)))
        raise KeyError(name)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


_TABLE = _Table(
    {
        **{("torch", name): Constant(_Dtype(dtype)) for name, dtype in _STORAGES.items()},
        **{("torch", name): Constant(_Dtype(name)) for name in ITEM_BYTES},
        ("torch.storage", "UntypedStorage"): Constant(_Dtype("uint8")),
        ("torch", "Size"): Function(tuple),
        ("torch._utils", "_rebuild_tensor_v2"): Function(_tensor, takes_all=True),
        ("torch._utils", "_rebuild_tensor_v3"): Function(_retyped_tensor, takes_all=True),
        ("torch._utils", "_rebuild_parameter"): Function(_wrapped, takes_all=True),
        ("torch._utils", "_rebuild_parameter_with_state"): Function(_wrapped, takes_all=True),
        ("torch._tensor", "_rebuild_from_type_v2"): Function(_subclassed, takes_all=True),
        ("collections", "OrderedDict"): Function(OrderedDict),
        ("collections", "defaultdict"): Function(lambda *_: {}, takes_all=True),
    }
)
