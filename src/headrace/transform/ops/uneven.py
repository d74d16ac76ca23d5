"""What ops share that join arrays of different lengths, on the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.core.errors import ConfigError
from headrace.core.record import AnyArray
from headrace.transform.op import BatchOp, Column


def arrays_of(column: Column, field: str, axis: int, op: BatchOp) -> list[AnyArray]:
    """Return the arrays of a column, with the axis along which their lengths differ in front.

    Raises:
        ConfigError: something else is in the column, or the arrays differ in more than that.
    """
    arrays = [value for value in column if isinstance(value, np.ndarray)]
    if len(arrays) < len(column) or not arrays:
        kinds = ", ".join(sorted({type(value).__name__ for value in column}))
        raise ConfigError(
            f"{op.name} joins arrays, but {field!r} holds {kinds}; put an op that makes arrays of "
            "it before (tokenize, decode_audio …)"
        )
    if any(not -array.ndim <= axis < array.ndim for array in arrays):
        raise ConfigError(
            f"{op.name}.axis={axis} is no axis of an array {list(arrays[0].shape)} in {field!r}"
        )
    moved = [np.moveaxis(array, axis, 0) for array in arrays]
    _require_alike(moved, field, axis, op)
    return moved


def _require_alike(moved: Sequence[AnyArray], field: str, axis: int, op: BatchOp) -> None:
    forms = {(array.dtype, array.shape[1:]) for array in moved}
    if len(forms) > 1:
        told = ", ".join(sorted(f"{dtype} {list(shape)}" for dtype, shape in forms))
        raise ConfigError(
            f"{op.name} joins arrays that differ along axis {axis} alone; those in {field!r} have "
            f"{told} besides it: make these alike by an op on samples"
        )


def filling_of(op: BatchOp, parameter: str, dtype: np.dtype[Any]) -> AnyArray:
    """Return what an op fills up with, in the arrays' own type.

    Raises:
        ConfigError: the type has no such value.
    """
    given: float = getattr(op, parameter)
    value = np.asarray(given)
    with np.errstate(invalid="ignore", over="ignore"):
        filling = value.astype(dtype)
    if dtype.kind in "biu" and filling != value:
        raise ConfigError(
            f"{op.name}.{parameter}={given} is no {dtype}, which {op.fields[0]!r} has"
        )
    return filling


def require_one_field(op: BatchOp) -> None:
    """Check that an op names just one field."""
    if len(op.fields) != 1:
        raise ConfigError(f"{op.name}.fields={op.fields} must be one field; use an op for each")
