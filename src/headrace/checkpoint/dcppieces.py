"""From what DCP's metadata says to pieces of files, with nothing in it believed unchecked.

A tensor's chunks must lie within it, not overlap and leave no gap; each must have a place that can
hold its numbers, in a file below the checkpoint's folder; and no two places may share bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import NoReturn

import numpy as np

from headrace.checkpoint.boxes import Bounds, TangledPartsError, overlap
from headrace.checkpoint.dcpmetadata import (
    DTYPE_BYTES,
    Blob,
    Chunk,
    Index,
    Metadata,
    Place,
    Size,
    Tensor,
)
from headrace.checkpoint.layout import Piece
from headrace.checkpoint.pickles import Opaque
from headrace.core.errors import CorruptDataError

_MOST_LETTERS = 4096
"""Of a tensor's or a file's name."""

_NO_NAMES = frozenset({"", ".", ".."})

_MOST_BYTES = 1 << 62
"""Longer files and larger tensors are not believed."""


def pieces_of(metadata: Metadata, *, what: str, whole: bool = True) -> tuple[Piece, ...]:
    """Return all shards and objects, by file and offset.

    Args:
        metadata: As the file says.
        what: The file, for errors.
        whole: Whether all chunks of each tensor are to be there, not only those of one rank.

    Raises:
        CorruptDataError: it contradicts itself, or names places that cannot be; says which.
    """
    check = _Check(what, whole)
    tensors = check.tensors(metadata)
    pieces = [check.piece(tensors, index, place) for index, place in check.places(metadata)]
    check.all_placed(tensors, pieces)
    pieces.sort(key=lambda piece: (piece.file, piece.offset))
    check.no_shared_bytes(pieces)
    return tuple(pieces)


def lengths_of(pieces: Iterable[Piece]) -> dict[str, int]:
    """Return how long each file must be to hold its pieces [bytes]."""
    lengths: dict[str, int] = {}
    for piece in pieces:
        lengths[piece.file] = max(lengths.get(piece.file, 0), piece.offset + piece.length)
    return lengths


class _Stored:
    """One entry of the state: an object without chunks, or a tensor and where its chunks begin."""

    def __init__(self, tensor: Tensor | None, chunks: dict[Size | None, Size]) -> None:
        self.tensor = tensor
        self.chunks = chunks
        """Shape by first index; None for an object that is no tensor."""


class _Check:
    """Refuses, in the name of one file."""

    def __init__(self, what: str, whole: bool) -> None:
        self._what = what
        self._whole = whole
        self._seen: dict[int, _Stored] = {}
        """Tensors that were looked at, by identity: a pickle may name one any number of times."""
        self._chunks: set[int] = set()
        """Identities of their lists of chunks."""

    def refuse(self, why: str) -> NoReturn:
        raise CorruptDataError(
            f"{self._what} says {why}; the checkpoint is damaged or was tampered with, use another"
        )

    def tensors(self, metadata: Metadata) -> dict[str, _Stored]:
        return {
            self._name(name): self._stored(name, value)
            for name, value in metadata.state_dict_metadata.items()
        }

    def _name(self, name: object) -> str:
        if type(name) is not str:
            self.refuse(f"that a {type(name).__name__} names a tensor")
        if len(name) > _MOST_LETTERS:
            self.refuse(f"that a tensor has a name of {len(name):,} letters")
        return name

    def _stored(self, name: str, value: object) -> _Stored:
        if type(value) is Blob:
            return _Stored(None, {None: Size()})
        if type(value) is not Tensor:
            held = value.name if isinstance(value, Opaque) else type(value).__name__
            self.refuse(f"that {name!r} is a {held[:99]}, not a tensor or bytes")
        if id(value) not in self._seen:
            self._seen[id(value)] = self._looked_at(name, value)
        return self._seen[id(value)]

    def _looked_at(self, name: str, value: Tensor) -> _Stored:
        if id(value.chunks) in self._chunks:
            self.refuse(f"that {name!r} has the chunks of another tensor")
        self._chunks.add(id(value.chunks))
        if not all(type(chunk) is Chunk for chunk in value.chunks):
            self.refuse(f"that parts of {name!r} are no chunks")
        self._require_parts(name, value)
        filled_last = sorted(value.chunks, key=lambda chunk: prod(chunk.sizes) > 0)
        return _Stored(value, {chunk.offsets: chunk.sizes for chunk in filled_last})

    def _require_parts(self, name: str, tensor: Tensor) -> None:
        whole, chunks = tensor.size, tensor.chunks
        rank = len(whole)
        if prod(whole) > _MOST_BYTES:
            self.refuse(f"that {name!r} has a shape that no tensor has")
        if any(len(c.offsets) != rank or len(c.sizes) != rank for c in chunks):
            self.refuse(f"that chunks of {name!r} have other dimensions than its {rank}")
        if len(chunks) == 1 and chunks[0].sizes == whole and not any(chunks[0].offsets):
            return
        begins = np.array([c.offsets for c in chunks], dtype=np.int64).reshape(len(chunks), rank)
        sizes = np.array([c.sizes for c in chunks], dtype=np.int64).reshape(len(chunks), rank)
        limits = np.array(whole, dtype=np.int64)
        if (begins > limits).any() or (sizes > limits - begins).any():
            self.refuse(f"that a chunk of {name!r} reaches beyond its shape {tuple(whole)}")
        filled = (sizes > 0).all(axis=1)
        held = sum(prod(c.sizes) for c in chunks) if self._whole else prod(whole)
        if held != prod(whole) or self._overlap(name, begins[filled], (begins + sizes)[filled]):
            self.refuse(f"that chunks of {name!r} overlap or leave gaps")

    def _overlap(self, name: str, begins: Bounds, ends: Bounds) -> bool:
        try:
            return overlap(begins, ends)
        except TangledPartsError:
            self.refuse(f"that {name!r} is cut in {len(begins):,} chunks that are no grid")

    def places(self, metadata: Metadata) -> Iterable[tuple[Index, Place]]:
        for index, place in (metadata.storage_data or {}).items():
            if type(index) is not Index or type(place) is not Place:
                self.refuse(f"that a {type(place).__name__} is the place of something")
            yield index, place

    def piece(self, tensors: dict[str, _Stored], index: Index, place: Place) -> Piece:
        name, stored = index.fqn, tensors.get(index.fqn)
        if stored is None or index.offset not in stored.chunks:
            self.refuse(f"where a chunk of {name[:99]!r} is that it does not describe otherwise")
        self._require_place(name, place)
        if stored.tensor is None or index.offset is None:
            return Piece(
                name=name, file=place.relative_path, offset=place.offset, length=place.length
            )
        piece = Piece(
            name=name,
            file=place.relative_path,
            offset=place.offset,
            length=place.length,
            dtype=self._dtype(name, stored.tensor),
            shape=stored.chunks[index.offset],
            origin=index.offset,
            whole=stored.tensor.size,
        )
        self._require_room(piece, place)
        return piece

    def _require_place(self, name: str, place: Place) -> None:
        if not is_inside(place.relative_path):
            self.refuse(
                f"that {name!r} is in {place.relative_path[:99]!r}, which is no file of its folder"
            )
        end = place.offset + place.length
        if place.offset < 0 or place.length < 0 or end > _MOST_BYTES:
            self.refuse(
                f"that {name!r} is at bytes {place.offset} to {end} of {place.relative_path}"
            )

    def _dtype(self, name: str, tensor: Tensor) -> str:
        dtype = tensor.properties.dtype
        if isinstance(dtype, Opaque) and dtype.name.startswith("torch."):
            return dtype.name.removeprefix("torch.")
        if isinstance(dtype, Opaque) or dtype not in DTYPE_BYTES:
            self.refuse(f"that {name!r} is of a type that is none of torch's")
        return dtype

    def _require_room(self, piece: Piece, place: Place) -> None:
        least = prod(piece.shape) * DTYPE_BYTES.get(piece.dtype or "", 0)
        if place.transform_descriptors is None and piece.length < least:
            self.refuse(
                f"that {piece.length:,} bytes of {piece.file} hold a chunk of {piece.name!r}, "
                f"whose numbers take {least:,}"
            )

    def all_placed(self, tensors: dict[str, _Stored], pieces: Sequence[Piece]) -> None:
        placed: dict[str, int] = {}
        for piece in pieces:
            placed[piece.name] = placed.get(piece.name, 0) + 1
        for name, stored in tensors.items():
            if placed.get(name, 0) != len(stored.chunks):
                self.refuse(f"of {len(stored.chunks):,} chunks of {name!r} not where they all are")

    def no_shared_bytes(self, pieces: Sequence[Piece]) -> None:
        for before, piece in pairwise(pieces):
            if piece.file == before.file and piece.offset < before.offset + before.length:
                self.refuse(f"that {before.name!r} and {piece.name!r} share bytes of {piece.file}")


def is_inside(path: str) -> bool:
    """Tell whether a relative path leads to something below the folder it is relative to.

    One with letters that cannot be printed, which may drive a terminal, does not count as a path.
    """
    return (
        len(path) <= _MOST_LETTERS
        and path.isprintable()
        and not _NO_NAMES.intersection(path.split("/"))
    )
