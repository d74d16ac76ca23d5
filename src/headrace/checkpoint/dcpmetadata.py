"""The ``.metadata`` of ``torch.distributed.checkpoint``, read without torch.

It is a pickle of a few dataclasses. Here they are inert classes of our own; what else a planner
has put in, such as Megatron's plans, is read as opaque and left out. Nothing is believed yet of
what the values say: ``dcppieces`` checks them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

from headrace.checkpoint.pickles import Class, Constant, Function, Opaque, Table, load
from headrace.core.errors import CorruptDataError

DTYPE_BYTES: Mapping[str, int] = {
    name: width
    for width, names in {
        1: "bool uint8 int8 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
        "float8_e8m0fnu float4_e2m1fn_x2",
        2: "uint16 int16 float16 bfloat16",
        4: "uint32 int32 float32 complex32",
        8: "uint64 int64 float64 complex64",
        16: "complex128",
    }.items()
    for name in names.split()
}
"""Bytes of one element, by torch's name of the dtype."""


class Size(tuple[int, ...]):
    """A ``torch.Size``: whole numbers from 0 up, below 2^63."""

    __slots__ = ()


@dataclass
class Properties:
    """Of a tensor; its ``dtype`` is a name, or opaque when it is newer than this table."""

    dtype: str | Opaque


@dataclass
class Chunk:
    """A part of a tensor."""

    offsets: Size
    sizes: Size


@dataclass
class Tensor:
    """A tensor in chunks."""

    properties: Properties
    size: Size
    chunks: list[Any]


@dataclass
class Blob:
    """An object that is no tensor."""


@dataclass(frozen=True)
class Index:
    """Names a chunk of a tensor by its offsets, or an object that is no tensor."""

    fqn: str
    offset: Size | None = None


@dataclass
class Place:
    """Where a chunk or an object is."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list[Any] | tuple[Any, ...] | None = None
    """What the bytes were passed through, such as a compression; None: nothing."""


@dataclass
class Metadata:
    """The whole; keys and values of its tables may still be anything."""

    state_dict_metadata: dict[Any, Any]
    storage_data: dict[Any, Any] | None = None


def parse_metadata(data: bytes, *, what: str) -> Metadata:
    """Return what the file says.

    Args:
        data: All bytes of the file.
        what: The file, for errors.

    Raises:
        CorruptDataError: it is damaged, is something else, or carries code.
    """
    value = load(data, TABLE, what=what, opaque=True)
    if not isinstance(value, Metadata):
        held = value.name if isinstance(value, Opaque) else type(value).__name__
        raise CorruptDataError(
            f"{what} holds a {held[:99]} instead of the metadata of torch.distributed.checkpoint; "
            "it was written by something else"
        )
    return value


def _size(numbers: tuple[int, ...] = ()) -> Size:
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise ValueError("a size is negative, too large or no number")
    return Size(numbers)


def _nothing(*_: object) -> None:
    return None


_MODULE = "torch.distributed.checkpoint.metadata"
_OLDER = "torch.distributed._shard.sharded_tensor.metadata"
_MAPS = (dict, OrderedDict)

_METADATA = Class(
    kind=Metadata, fields={"state_dict_metadata": _MAPS, "storage_data": (*_MAPS, NoneType)}
)
_PROPERTIES = Class(kind=Properties, fields={"dtype": (str, Opaque)}, order=("dtype",))

TABLE: Table = {
    (_MODULE, "Metadata"): _METADATA,
    ("megatron.core.dist_checkpointing.mapping", "MCoreMetadata"): _METADATA,
    ("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata"): _METADATA,
    (_MODULE, "TensorProperties"): _PROPERTIES,
    (_OLDER, "TensorProperties"): _PROPERTIES,
    (_MODULE, "_MEM_FORMAT_ENCODING"): Function(_nothing),
    (_OLDER, "MEM_FORMAT_ENCODING"): Function(_nothing),
    ("torch.serialization", "_get_layout"): Function(_nothing),
    ("torch", "Size"): Function(_size),
    (_MODULE, "ChunkStorageMetadata"): Class(
        kind=Chunk, fields={"offsets": (Size,), "sizes": (Size,)}
    ),
    (_MODULE, "TensorStorageMetadata"): Class(
        kind=Tensor,
        fields={"properties": (Properties,), "size": (Size,), "chunks": (list,)},
    ),
    (_MODULE, "BytesStorageMetadata"): Class(kind=Blob, fields={}),
    (_MODULE, "MetadataIndex"): Class(
        kind=Index, fields={"fqn": (str,), "offset": (Size, NoneType)}, is_key=True
    ),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): Class(
        kind=Place,
        fields={
            "relative_path": (str,),
            "offset": (int,),
            "length": (int,),
            "transform_descriptors": (list, tuple, NoneType),
        },
    ),
    ("builtins", "set"): Function(set),
    ("collections", "OrderedDict"): Function(OrderedDict),
    **{("torch", name): Constant(name) for name in DTYPE_BYTES},
    **{
        name: Constant(Opaque(".".join(name)))
        for name in (
            ("argparse", "Namespace"),
            ("datetime", "datetime"),
            ("pathlib", "PosixPath"),
            ("pathlib._local", "PosixPath"),
            ("uuid", "UUID"),
        )
    },
}
"""All that the file may name, and what becomes of it."""
