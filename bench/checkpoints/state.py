"""A training state whose every byte is known: layers in shards, a table that all ranks hold.

Laid out as FSDP2 leaves it: parameters and their two moments are sharded by rows over all ranks
of a mesh, small scalars and one large shared embedding are on every rank. What a tensor holds
is a slice of one pool of random bytes, at a place that its name tells, so that the state of any
rank in any mesh is made, and compared bit by bit, without reading anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xxhash
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from bench.checkpoints.model import LARGE, SMALL, Model

SEED = 7
ALIGNMENT = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """One tensor of the state."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    shared: bool
    """Whether every rank holds all of it."""

    @property
    def nbytes(self) -> int:
        """Of the whole tensor."""
        return math.prod(self.shape) * self.dtype.itemsize


def parameters(model: Model) -> Iterator[Described]:
    """Yield the tensors of the model."""
    shape = (model.vocabulary, model.width)
    yield Described(name="embedding", shape=shape, dtype=torch.bfloat16, shared=True)
    for layer in range(model.layers):
        for name in SMALL:
            yield _sharded(f"layers.{layer}.{name}", (model.width,))
        for name in LARGE:
            yield _sharded(f"layers.{layer}.{name}", (model.rows, model.width))


def moments(model: Model) -> Iterator[Described]:
    """Yield the tensors of the optimizer."""
    for one in parameters(model):
        if one.shared:
            continue  # the embedding is frozen, as it is in stages that adapt a model
        for moment in ("exp_avg", "exp_avg_sq"):
            yield Described(
                name=f"{one.name}.{moment}", shape=one.shape, dtype=torch.float32, shared=False
            )
        yield Described(name=f"{one.name}.step", shape=(), dtype=torch.float32, shared=True)


def _sharded(name: str, shape: tuple[int, ...]) -> Described:
    return Described(name=name, shape=shape, dtype=torch.bfloat16, shared=False)


class Pool:
    """Random bytes that all tensors are slices of. Made before ranks are forked, who share it."""

    def __init__(self, nbytes: int) -> None:
        self._bytes = np.random.default_rng(SEED).integers(0, 255, nbytes, np.uint8)

    def slice(self, tensor: Described, first_row: int, rows: int) -> torch.Tensor:
        """Return some rows of a tensor as it was saved: a view, not to be written to."""
        row_bytes = tensor.nbytes // tensor.shape[0] if tensor.shape else tensor.nbytes
        begin = self._place(tensor) + first_row * row_bytes
        found = torch.from_numpy(self._bytes[begin : begin + rows * row_bytes]).view(tensor.dtype)
        return found.reshape(rows, *tensor.shape[1:]) if tensor.shape else found.reshape(())

    def _place(self, tensor: Described) -> int:
        room = (self._bytes.nbytes - tensor.nbytes) // ALIGNMENT
        return xxhash.xxh3_64_intdigest(tensor.name.encode()) % room * ALIGNMENT


class Shards:
    """The part of a state that one rank holds.

    Args:
        model: Sizes of the state.
        mesh: Ranks that share it out; the last dimension shards, one before it replicates.
        pool: What tensors hold.
        with_optimizer: Whether the optimizer's state is part of it.
    """

    def __init__(self, model: Model, mesh: DeviceMesh, pool: Pool, *, with_optimizer: bool) -> None:
        self._mesh = mesh
        self._pool = pool
        self._parts = {"model": list(parameters(model))}
        if with_optimizer:
            self._parts["optimizer"] = list(moments(model))

    def saved(self) -> dict[str, Any]:
        """Return the state as it is saved."""
        return self._made(lambda local: local)

    def empty(self) -> dict[str, Any]:
        """Return a state to load into."""
        return self._made(torch.zeros_like)

    def whole_model(self) -> dict[str, torch.Tensor]:
        """Return the model's tensors without a mesh; only where one rank has all of them."""
        return {tensor.name: self._expected(tensor) for tensor in self._parts["model"]}

    def unequal(self, loaded: dict[str, Any]) -> list[str]:
        """Return the names of tensors that are not what was saved, to the last bit."""
        return [
            tensor.name
            for part, tensors in self._parts.items()
            for tensor in tensors
            if not _same_bits(_local(loaded[part][tensor.name]), self._expected(tensor))
        ]

    @property
    def nbytes(self) -> int:
        """Of this rank's part."""
        all_ = (self._expected(one) for tensors in self._parts.values() for one in tensors)
        return sum(one.nbytes for one in all_)

    def _made(self, make: Any) -> dict[str, Any]:
        return {
            part: {tensor.name: self._tensor(tensor, make) for tensor in tensors}
            for part, tensors in self._parts.items()
        }

    def _tensor(self, tensor: Described, make: Any) -> torch.Tensor:
        local = make(self._expected(tensor))
        if tensor.shared:
            return local
        placements = [Replicate()] * (self._mesh.ndim - 1) + [Shard(0)]
        strides = torch.empty(tensor.shape, device="meta").stride()
        return DTensor.from_local(
            local,
            self._mesh,
            placements,
            run_check=False,
            shape=torch.Size(tensor.shape),
            stride=strides,
        )

    def _expected(self, tensor: Described) -> torch.Tensor:
        if tensor.shared:
            return self._pool.slice(tensor, 0, tensor.shape[0] if tensor.shape else 1)
        where = self._mesh.get_coordinate()
        assert where is not None
        each = math.ceil(tensor.shape[0] / self._mesh.size(self._mesh.ndim - 1))
        first = min(where[-1] * each, tensor.shape[0])
        return self._pool.slice(tensor, first, min(each, tensor.shape[0] - first))


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare as bytes: what is not a number is not equal to itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
