"""Fills the arrays of a batch up to one length, on the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from headrace.core.errors import ConfigError
from headrace.core.record import AnyArray
from headrace.transform import cost
from headrace.transform.op import BatchOp, Columns, Memory, Rows
from headrace.transform.ops.uneven import arrays_of, filling_of, require_one_field
from headrace.transform.spec import Spec


class Pad(BatchOp, frozen=True):
    """Make one array ``[n, ...]`` of arrays that differ in length, filled up at their ends.

    Makes ``FIELD_lengths`` (``int64 [n]``), what each was, beside it; with ``mask`` also
    ``FIELD_mask`` (``bool [n, length]``), true where there was something.
    """

    to: int | Literal["longest"] = "longest"
    """Length of the result; ``longest`` is that of the longest array of the batch."""

    multiple: int = 1
    """With ``longest``: go on to a multiple of this."""

    value: float = 0
    """What is filled in."""

    mask: bool = False
    axis: int = 0
    """Axis of a single sample, counted from the end where it is below 0."""

    fields: tuple[str, ...] = ("tokens",)
    """The one field that is padded."""

    def __post_init__(self) -> None:
        require_one_field(self)
        if self.multiple < 1 or (self.to != "longest" and self.to < 1):
            raise ConfigError(
                f"pad.to={self.to!r} must be 'longest' or at least 1, and pad.multiple="
                f"{self.multiple} at least 1"
            )
        if self.to != "longest" and self.multiple != 1:
            raise ConfigError(
                f"pad.multiple={self.multiple} belongs to pad.to='longest', not to {self.to}"
            )

    def join(self, columns: Columns, memory: Memory = np.empty) -> Columns:
        """Return the batch with the field padded.

        Raises:
            ConfigError: the arrays differ in more than the length, or are longer than ``to``.
        """
        (field,) = self.fields
        arrays = arrays_of(columns[field], field, self.axis, self)
        lengths = np.array([len(array) for array in arrays], np.int64)
        length = self._length(lengths)
        padded = self._room(arrays, length, memory)
        filling = filling_of(self, "value", arrays[0].dtype)
        for row, array in zip(np.moveaxis(padded, self._batch_axis, 1), arrays, strict=True):
            row[: len(array)] = array
            row[len(array) :] = filling
        joined = {**columns, field: padded, f"{field}_lengths": lengths}
        if self.mask:
            joined[f"{field}_mask"] = np.arange(length) < lengths[:, None]
        return joined

    def rows(self, columns: Columns, rows: Mapping[str, Rows]) -> dict[str, Rows]:  # noqa: ARG002
        """Return the rows of the field for all that is made of it."""
        (field,) = self.fields
        return dict.fromkeys((field, f"{field}_lengths", f"{field}_mask"), rows[field])

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.COPY * spec.nbytes

    def _length(self, lengths: Rows) -> int:
        longest = int(lengths.max())
        if self.to == "longest":
            return -(-longest // self.multiple) * self.multiple
        if longest > self.to:
            raise ConfigError(
                f"pad.to={self.to} is shorter than an array of {longest} in {self.fields[0]!r}; "
                f"put truncate({self.to}) before it, or raise to"
            )
        return self.to

    @property
    def _batch_axis(self) -> int:
        """The padded axis of the whole batch."""
        return self.axis if self.axis < 0 else self.axis + 1

    def _room(self, arrays: list[AnyArray], length: int, memory: Memory) -> AnyArray:
        """Return memory for arrays whose first axis is padded, with that axis where it was."""
        shape = list(np.moveaxis(arrays[0], 0, self.axis).shape)
        shape[self.axis] = length
        return memory((len(arrays), *shape), arrays[0].dtype)
