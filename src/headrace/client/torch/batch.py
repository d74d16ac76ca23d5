"""Batches as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import torch

from headrace.client.batch import Batch, Replaced, Uneven
from headrace.core.record import AnyArray, Value
from headrace.transform.op import Column, Rows

TensorColumn: TypeAlias = "torch.Tensor | list[torch.Tensor | Value]"
"""A tensor ``[n, ...]``, or a list where shapes differ or values are text or bytes."""


class TensorBatch(Mapping[str, TensorColumn]):
    """A :class:`~headrace.client.batch.Batch` whose arrays are tensors over the same memory."""

    __slots__ = ("_batch", "_columns")

    def __init__(self, batch: Batch, columns: Mapping[str, TensorColumn] | None = None) -> None:
        self._batch = batch
        self._columns = dict(columns or {name: tensors(batch[name]) for name in batch})

    def __getitem__(self, field: str) -> TensorColumn:
        """Return one column; KeyError names those there are."""
        if field not in self._columns:
            return tensors(self._batch[field])
        return self._columns[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns; ``size`` is the number of rows."""
        return len(self._columns)

    @property
    def step(self) -> int:
        """The batch's step, counted over all epochs."""
        return self._batch.step

    @property
    def epoch(self) -> int:
        """The job's epoch."""
        return self._batch.epoch

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._batch.size

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """Scheduled samples that could not be used."""
        return self._batch.replaced

    def rows(self, field: str) -> Rows:
        """Return which rows of the batch the entries of a column belong to."""
        return self._batch.rows(field)

    def to(self, device: torch.device | str, *, non_blocking: bool = True) -> TensorBatch:
        """Return the batch with its tensors on a device."""
        moved = {
            name: _moved(column, device, non_blocking=non_blocking)
            for name, column in self._columns.items()
        }
        return TensorBatch(self._batch, moved)

    def __repr__(self) -> str:
        return f"<Tensor{repr(self._batch)[1:]}"


def tensors(column: Column) -> TensorColumn:
    """Return a column with tensors in the place of arrays; nothing is copied."""
    if isinstance(column, np.ndarray):
        return _tensor(column)
    items: list[torch.Tensor | Value] = [
        _tensor(item) if isinstance(item, np.ndarray) else item for item in column
    ]
    return Uneven(items) if isinstance(column, Uneven) else items


def _tensor(array: AnyArray) -> torch.Tensor:
    """Return a tensor over an array's memory: of PyTorch's own storage where that is what it is.

    Only by its storage does PyTorch know pinned memory that a copy to a GPU still reads, and
    keeps it from being used again.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    view = torch.from_numpy(array)
    if not isinstance(owner, torch.Tensor) or not view.numel():
        return view
    storage = owner.untyped_storage()
    start = (view.data_ptr() - storage.data_ptr()) // view.element_size()
    return torch.empty(0, dtype=view.dtype).set_(storage, start, view.shape, view.stride())


def _moved(column: TensorColumn, device: torch.device | str, *, non_blocking: bool) -> TensorColumn:
    if isinstance(column, torch.Tensor):
        return column.to(device, non_blocking=non_blocking)
    items = [
        item.to(device, non_blocking=non_blocking) if isinstance(item, torch.Tensor) else item
        for item in column
    ]
    return Uneven(items) if isinstance(column, Uneven) else items
