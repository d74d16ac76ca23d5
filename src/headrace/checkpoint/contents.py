"""What a checkpoint holds, added up: files by role, tensors by type, and the largest of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from headrace.checkpoint.layout import Checkpoint, Piece, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleSum:
    """Files of one role."""

    role: Role
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorSum:
    """One tensor, all its shards together."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """Of the whole tensor."""

    shards: int
    bytes: int
    """As it is stored, wrapping included."""

    @property
    def elements(self) -> int:
        """Numbers of the whole tensor."""
        return prod(self.shape)


@dataclass(frozen=True, kw_only=True, slots=True)
class DtypeSum:
    """All tensors of one type."""

    dtype: str
    tensors: int
    elements: int
    bytes: int
    """As they are stored, wrapping included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What the pieces of a checkpoint make up."""

    tensors: tuple[TensorSum, ...]
    """The largest first."""

    dtypes: tuple[DtypeSum, ...]
    """What takes most bytes first."""

    objects: int
    """Pieces that are no tensors."""

    object_bytes: int


def roles_of(checkpoint: Checkpoint) -> list[RoleSum]:
    """Return its files by role, what takes most bytes first."""
    sizes: dict[Role, list[int]] = defaultdict(list)
    for file in checkpoint.files:
        sizes[file.role].append(file.size)
    sums = [RoleSum(role=role, files=len(of), bytes=sum(of)) for role, of in sizes.items()]
    return sorted(sums, key=lambda one: -one.bytes)


def contents_of(pieces: Iterable[Piece]) -> Contents:
    """Return what pieces make up, in any order."""
    shards: dict[str, list[Piece]] = defaultdict(list)
    objects: list[Piece] = []
    for piece in pieces:
        (objects if piece.dtype is None else shards[piece.name]).append(piece)
    tensors = sorted((_tensor(of) for of in shards.values()), key=lambda one: -one.bytes)
    return Contents(
        tensors=tuple(tensors),
        dtypes=_by_dtype(tensors),
        objects=len(objects),
        object_bytes=sum(piece.length for piece in objects),
    )


def _tensor(shards: Sequence[Piece]) -> TensorSum:
    first = shards[0]
    return TensorSum(
        name=first.name,
        dtype=first.dtype or "",
        shape=tuple(first.whole),
        shards=len(shards),
        bytes=sum(shard.length for shard in shards),
    )


def _by_dtype(tensors: Iterable[TensorSum]) -> tuple[DtypeSum, ...]:
    of: dict[str, list[TensorSum]] = defaultdict(list)
    for tensor in tensors:
        of[tensor.dtype].append(tensor)
    sums = (
        DtypeSum(
            dtype=dtype,
            tensors=len(found),
            elements=sum(one.elements for one in found),
            bytes=sum(one.bytes for one in found),
        )
        for dtype, found in of.items()
    )
    return tuple(sorted(sums, key=lambda one: -one.bytes))
