"""Brings the bytes of saved tensors into the tensors that are loaded, without ``torch.load``.

A box of a saved tensor that is one run of bytes, and goes to one run of memory of the same type
on the CPU, is read straight into it. Everything else goes through a tensor over what was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

import numpy as np
import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint.planner import ReadItem

from headrace.client.checkpoint.savedtensor import SavedTensor, parse_head
from headrace.core.errors import CorruptDataError


@dataclass(frozen=True, slots=True)
class Box:
    """The part of a saved tensor that is wanted."""

    saved: SavedTensor
    offsets: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        """Begin and end of the bytes in which it lies, from the beginning of the piece."""
        return self.saved.span(self.offsets, self.lengths)

    @property
    def is_one_run(self) -> bool:
        """Whether these bytes hold nothing else, in row-major order."""
        run = 1
        for length, stride in zip(
            reversed(self.lengths), reversed(self.saved.strides), strict=True
        ):
            if length != 1 and stride != run:
                return 0 in self.lengths
            run *= length
        return True


def find_box(head: memoryview, item: ReadItem, name: str) -> Box | None:
    """Return what an item wants of the tensor that begins with ``head``; None: see ``parse_head``.

    Raises:
        CorruptDataError: the box is not in the tensor.
    """
    saved = parse_head(head)
    if saved is None:
        return None
    box = Box(saved, tuple(item.storage_offsets), tuple(item.lengths))
    if len(box.lengths) != len(saved.shape) or not all(
        begin >= 0 and length >= 0 and begin + length <= size
        for begin, length, size in zip(box.offsets, box.lengths, saved.shape, strict=False)
    ):
        raise _misfit(name, saved.shape, box.offsets, box.lengths)
    return box


def memory_of(target: torch.Tensor, box: Box) -> memoryview | None:
    """Return the memory of a tensor that a box fills as it is read; None: it cannot be so."""
    if not (
        box.is_one_run
        and type(target) in (torch.Tensor, torch.nn.Parameter)
        and target.device.type == "cpu"
        and target.dtype is getattr(torch, box.saved.dtype)
        and target.is_contiguous()
        and not target.is_conj()
        and not target.is_neg()
        and tuple(target.size()) == box.lengths
    ):
        return None
    octets = torch.empty(0, dtype=torch.uint8).set_(
        target.untyped_storage(), target.storage_offset() * target.itemsize, (target.nbytes,), (1,)
    )
    return octets.numpy().data


def fill(target: torch.Tensor, box: Box, data: memoryview, name: str) -> None:
    """Copy a box into a tensor of the same size.

    Args:
        target: Of any type and device.
        box: What is wanted.
        data: The bytes of ``box.span``.
        name: Of the tensor, for errors.

    Raises:
        CorruptDataError: the sizes differ.
    """
    memory = memory_of(target, box)
    if memory is not None:
        memory[:] = data
        return
    _copy(target, _tensor_over(box, data), name)


def fill_whole(target: torch.Tensor, item: ReadItem, stream: IO[bytes], name: str) -> None:
    """Copy what an item wants of a tensor that ``torch.load`` reads.

    Raises:
        CorruptDataError: it is no tensor, or the item is not in it.
    """
    try:
        tensor = torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the damage leads to
        raise CorruptDataError(
            f"{name} cannot be read: {error}; its file is truncated, damaged or hostile"
        ) from error
    if not isinstance(tensor, torch.Tensor):
        raise CorruptDataError(f"{name} is a {type(tensor).__name__} instead of a tensor")
    try:
        tensor = narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
    except (RuntimeError, IndexError) as error:
        raise _misfit(
            name, tuple(tensor.shape), tuple(item.storage_offsets), tuple(item.lengths)
        ) from error
    _copy(target, tensor, name)


def _tensor_over(box: Box, data: memoryview) -> torch.Tensor:
    """Return the box as a tensor over a copy of its bytes: theirs may be read-only, unaligned."""
    octets = torch.empty(len(data), dtype=torch.uint8)
    octets.numpy()[:] = np.frombuffer(data, np.uint8)
    numbers = octets.view(getattr(torch, box.saved.dtype))
    return numbers.as_strided(box.lengths, box.saved.strides)


def _copy(target: torch.Tensor, tensor: torch.Tensor, name: str) -> None:
    if target.size() != tensor.size():
        raise CorruptDataError(
            f"{name} is {tuple(tensor.size())} in the checkpoint, and {tuple(target.size())} is "
            "wanted; the metadata is of another checkpoint, or the planner changed it"
        )
    target.copy_(tensor)


def _misfit(
    name: str, shape: tuple[int, ...], offsets: tuple[int, ...], lengths: tuple[int, ...]
) -> CorruptDataError:
    return CorruptDataError(
        f"{name} has the shape {shape} in its file, and {lengths} from {offsets} on are wanted; "
        "the metadata is of another checkpoint, or damaged"
    )
