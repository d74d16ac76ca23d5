"""Reads the ``.metadata`` of ``torch.distributed.checkpoint`` into torch's own classes.

It is a pickle. Nothing of it is executed: only the names below mean something, and what else a
framework put into ``planner_data`` becomes inert.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import PurePosixPath

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from headrace.checkpoint.dcppieces import is_inside
from headrace.checkpoint.pickles import Class, Constant, Function, Known, load
from headrace.client.torch.checkpoint.pieces import Pieces
from headrace.core.errors import CorruptDataError

_NONE = type(None)
_MOST_BYTES = 1 << 62
_HOME = "torch.distributed.checkpoint.metadata"


def parse_metadata(data: bytes, what: str) -> Metadata:
    """Return the metadata that a file holds, its ``storage_data`` as ``Pieces``.

    Args:
        data: The whole file.
        what: Its name, for errors.

    Raises:
        CorruptDataError: it is damaged, is no metadata, names files outside of its folder, or
            pieces that cannot be.
    """
    metadata = load(data, _TABLE, what=what, opaque=True)
    if not isinstance(metadata, Metadata):
        raise CorruptDataError(
            f"{what} holds a {type(metadata).__name__} instead of a checkpoint's metadata; was it "
            "written by torch.distributed.checkpoint?"
        )
    if type(metadata.storage_data) is not dict:
        raise CorruptDataError(f"{what} does not say where pieces lie; was its save interrupted?")
    for name, kind in metadata.state_dict_metadata.items():
        _require_kind(name, kind, what)
    for index, info in metadata.storage_data.items():
        _require_place(index, info, what)
    _require_inside(metadata.storage_data, what)
    _require_apart(metadata.storage_data, what)
    metadata.storage_data = Pieces(metadata.storage_data)
    return metadata


def _require_kind(name: object, kind: object, what: str) -> None:
    if isinstance(kind, BytesStorageMetadata) or (
        isinstance(kind, TensorStorageMetadata)
        and all(_lies_within(chunk, kind.size) for chunk in kind.chunks)
    ):
        return
    raise CorruptDataError(
        f"{what} describes {str(name)[:99]!r} as what cannot be: no tensor, or one with a chunk "
        "outside of it; it is damaged or hostile"
    )


def _lies_within(chunk: object, size: torch.Size) -> bool:
    if not isinstance(chunk, ChunkStorageMetadata):
        return False
    if not len(chunk.offsets) == len(chunk.sizes) == len(size):
        return False
    for begin, length, whole in zip(chunk.offsets, chunk.sizes, size, strict=True):
        if begin < 0 or length < 0 or begin + length > whole:
            return False
    return True


def _require_place(index: object, info: object, what: str) -> None:
    if not isinstance(index, MetadataIndex) or not isinstance(info, _StorageInfo):
        raise CorruptDataError(
            f"{what} describes a piece by a {type(info).__name__}, which is not how files store "
            "it; it was written for another kind of storage"
        )
    if not (0 <= info.offset <= _MOST_BYTES and 0 <= info.length <= _MOST_BYTES):
        raise CorruptDataError(
            f"{what} says that {index.fqn!r} lies at {info.offset}, {info.length} bytes long; it "
            "is damaged or hostile"
        )
    if not (index.index is None or 0 <= index.index <= _MOST_BYTES):
        raise CorruptDataError(
            f"{what} numbers a piece of {index.fqn!r} with {index.index}; it is damaged or hostile"
        )


def _require_inside(places: dict[MetadataIndex, _StorageInfo], what: str) -> None:
    """Refuse files outside of the folder; many pieces lie in each."""
    for path, name in {info.relative_path: index.fqn for index, info in places.items()}.items():
        if not is_inside(path):
            raise CorruptDataError(
                f"{what} says that {name!r} lies in {path[:99]!r}, outside of the checkpoint; it "
                "is damaged or hostile"
            )


def _require_apart(places: dict[MetadataIndex, _StorageInfo], what: str) -> None:
    """Refuse two pieces that share bytes: one of them is not what it says."""
    files: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for index, info in places.items():
        if info.length:
            files[info.relative_path].append((info.offset, info.offset + info.length, index.fqn))
    for path, pieces in files.items():
        for (_, end, name), (begin, _, other) in pairwise(sorted(pieces)):
            if begin < end:
                raise CorruptDataError(
                    f"{what} says that {name!r} and {other!r} share bytes of {path} from {begin} "
                    "on; it is damaged or hostile"
                )


def _memory_format(code: int) -> torch.memory_format:
    return (torch.contiguous_format, torch.channels_last, torch.preserve_format)[code]


def _layout(name: str) -> torch.layout:
    layouts = {str(one): one for one in vars(torch).values() if isinstance(one, torch.layout)}
    return layouts[name]


_CLASSES = (
    Class(
        kind=Metadata,
        fields={
            "state_dict_metadata": (dict,),
            "planner_data": (object,),
            "storage_data": (object,),
            "storage_meta": (StorageMeta, _NONE),
            "version": (str, _NONE),
        },
    ),
    Class(
        kind=TensorStorageMetadata,
        fields={"properties": (TensorProperties,), "size": (torch.Size,), "chunks": (list,)},
    ),
    Class(kind=BytesStorageMetadata, fields={}),
    Class(kind=ChunkStorageMetadata, fields={"offsets": (torch.Size,), "sizes": (torch.Size,)}),
    Class(
        kind=MetadataIndex,
        fields={"fqn": (str,), "offset": (torch.Size, _NONE), "index": (int, _NONE)},
        is_key=True,
    ),
    Class(
        kind=TensorProperties,
        fields={
            "dtype": (torch.dtype,),
            "layout": (torch.layout,),
            "requires_grad": (bool,),
            "memory_format": (torch.memory_format,),
            "pin_memory": (bool,),
            "strides": (tuple, _NONE),
        },
        order=("dtype", "layout", "requires_grad", "memory_format", "pin_memory", "strides"),
    ),
    Class(
        kind=StorageMeta,
        fields={
            "checkpoint_id": (object,),
            "save_id": (str, _NONE),
            "load_id": (str, _NONE),
            "modules": (list,),
        },
    ),
)

_TABLE: dict[tuple[str, str], Known] = {
    **{(_HOME, one.kind.__name__): one for one in _CLASSES},
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): Class(
        kind=_StorageInfo,
        fields={
            "relative_path": (str,),
            "offset": (int,),
            "length": (int,),
            "transform_descriptors": (list, _NONE),
        },
    ),
    (_HOME, "_MEM_FORMAT_ENCODING"): Function(_memory_format),
    ("torch", "Size"): Function(torch.Size),
    ("torch.serialization", "_get_layout"): Function(_layout),
    **{
        (module, name): Function(PurePosixPath)
        for module in ("pathlib", "pathlib._local")  # Python 3.13 moved it
        for name in ("PosixPath", "PurePosixPath")
    },
    ("builtins", "set"): Function(set),
    ("collections", "OrderedDict"): Function(dict),
    **{
        ("torch", name): Constant(value)
        for name, value in vars(torch).items()
        if isinstance(value, torch.dtype)
    },
}
