"""The op that bounds the length of samples."""

from __future__ import annotations

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.core.record import Value
from headrace.transform import cost
from headrace.transform.op import ValueOp, require_array
from headrace.transform.spec import Array, Spec


class Truncate(ValueOp, frozen=True):
    """Keep the first ``length`` entries of an array along one axis; shorter ones stay."""

    length: int
    """Most entries that are kept."""

    axis: int = 0
    """Axis of a single sample, counted from the end where it is below 0."""

    fields: tuple[str, ...] = ("tokens",)

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"truncate.length={self.length} must be at least 1")

    def apply(self, value: Value, draws: Draws) -> Value:  # noqa: ARG002 - nothing random
        """Return the beginning of the array.

        Raises:
            ConfigError: the value is no array, or has no such axis.
        """
        array = require_array(value, self, self.fields[0])
        if not -array.ndim <= self.axis < array.ndim:
            raise ConfigError(
                f"truncate.axis={self.axis} is no axis of an array {list(array.shape)}"
            )
        if array.shape[self.axis] <= self.length:
            return array
        kept = [slice(None)] * array.ndim
        kept[self.axis] = slice(self.length)
        return array[tuple(kept)].copy()

    def infer(self, spec: Spec) -> Spec:
        """Return the shape, bounded along the axis."""
        if not isinstance(spec, Array) or not -len(spec.shape) <= self.axis < len(spec.shape):
            return spec
        shape = list(spec.shape)
        shape[self.axis] = min(shape[self.axis], self.length)
        return Array(dtype=spec.dtype, shape=tuple(shape))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.COPY * spec.nbytes
