"""Lays the arrays of a batch end to end, on the client."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.transform import cost
from headrace.transform.op import BatchOp, Columns, Memory, Rows
from headrace.transform.ops.uneven import arrays_of, require_one_field
from headrace.transform.spec import Spec


class Ragged(BatchOp, frozen=True):
    """Make one array ``[sum of lengths, ...]`` of arrays that differ in length; nothing is padded.

    Makes ``FIELD_offsets`` (``int64 [n + 1]``) beside it: array i is ``FIELD[offsets[i] :
    offsets[i + 1]]``. Both are what ``torch.nested.nested_tensor_from_jagged`` takes, and the
    offsets, as int32, FlashAttention's ``cu_seqlens``.
    """

    axis: int = 0
    """Axis of a single sample along which lengths differ; it is the first of the result."""

    fields: tuple[str, ...] = ("tokens",)
    """The one field that is joined."""

    def __post_init__(self) -> None:
        require_one_field(self)

    def join(self, columns: Columns, memory: Memory = np.empty) -> Columns:
        """Return the batch with the field's arrays end to end.

        Raises:
            ConfigError: the arrays differ in more than the length.
        """
        (field,) = self.fields
        arrays = arrays_of(columns[field], field, self.axis, self)
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        flat = memory((int(offsets[-1]), *arrays[0].shape[1:]), arrays[0].dtype)
        np.concatenate(arrays, out=flat)
        return {**columns, field: flat, f"{field}_offsets": offsets}

    def rows(self, columns: Columns, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return for each entry of the result which row it is of."""
        (field,) = self.fields
        arrays = arrays_of(columns[field], field, self.axis, self)
        return {field: np.repeat(rows[field], [len(array) for array in arrays])}

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.COPY * spec.nbytes
