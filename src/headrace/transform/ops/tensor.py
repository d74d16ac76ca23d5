"""Bytes to normalised floats: the elementwise tail that a trainer can run on a whole batch.

The bytes of the result have one definition, torchvision's: ``float32(x) / 255``, then
``(y - mean) / std``, each step rounded to float32. Lookup tables give the same bytes but were
slower (0.16 ms against 0.12 ms for 224 x 224 x 3 on one core of an EPYC 7003, NumPy 2.4).
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.core.record import AnyArray
from headrace.transform import cost
from headrace.transform.op import MEDIA, ArrayOp
from headrace.transform.spec import Array, Spec

Floats = npt.NDArray[np.float32]

_WHITE = np.float32(255)


class ToFloat(ArrayOp, frozen=True):
    """``uint8 [..., H, W, C]`` to ``float32 [..., C, H, W]`` in [0, 1]."""

    fields: tuple[str, ...] = MEDIA

    def compute(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return ``float32(array) / 255``, channels first.

        Raises:
            ConfigError: the array is not uint8 with at least three dimensions.
        """
        if array.dtype != np.uint8 or array.ndim < 3:
            raise ConfigError(
                f"to_float takes uint8 [..., H, W, C], not {array.dtype} {list(array.shape)}; "
                "put it once, behind the ops on pictures"
            )
        channels_first = array.transpose(_channels_first(array.ndim))
        result = np.empty(channels_first.shape, np.float32) if out is None else out
        np.copyto(result, channels_first)
        return np.divide(result, _WHITE, out=result)

    def infer(self, spec: Spec) -> Spec:
        """Return four times the bytes, channels first."""
        if not isinstance(spec, Array):
            return spec
        *lead, height, width, channels = spec.shape
        return Array(dtype="float32", shape=(*lead, channels, height, width))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.TO_FLOAT * cost.elements(spec)


class Normalize(ArrayOp, frozen=True):
    """``(x - mean) / std`` per channel of ``float32 [..., C, H, W]``."""

    in_place: ClassVar[bool] = True

    mean: tuple[float, ...]
    std: tuple[float, ...]
    fields: tuple[str, ...] = MEDIA

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not self.mean:
            raise ConfigError(
                f"normalize.mean has {len(self.mean)} channels and normalize.std {len(self.std)}; "
                "give both one number per channel"
            )
        if not all(np.float32(value) > 0 for value in self.std):
            raise ConfigError(f"normalize.std={self.std} must be above 0 in every channel")

    def compute(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return the normalised array; ``out`` may be ``array`` itself.

        Raises:
            ConfigError: the array is not float32 with as many channels as ``mean``.
        """
        if array.dtype != np.float32 or array.ndim < 3 or array.shape[-3] != len(self.mean):
            raise ConfigError(
                f"normalize takes float32 [..., {len(self.mean)}, H, W], not {array.dtype} "
                f"{list(array.shape)}; put to_float before it"
            )
        result = np.subtract(array, _per_channel(self.mean), out=out)
        return np.divide(result, _per_channel(self.std), out=result)

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.NORMALIZE * cost.elements(spec)


@lru_cache
def _channels_first(ndim: int) -> tuple[int, ...]:
    """Return the axes of ``[..., H, W, C]`` in the order ``[..., C, H, W]``."""
    lead = ndim - 3
    return (*range(lead), ndim - 1, lead, lead + 1)


@lru_cache
def _per_channel(values: tuple[float, ...]) -> Floats:
    return np.asarray(values, np.float32)[:, None, None]
