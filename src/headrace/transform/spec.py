"""What a field looks like between two ops, without its bytes: enough to plan with.

The split planner and ``explain`` follow these through a pipeline instead of pixels.
Sizes are expectations over a dataset, so they may be fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Bytes of a file format that have not been decoded."""

    nbytes: float
    """Mean length [bytes]."""

    width: float = 0
    """Width of the picture or of the clip's frames [px]; 0 for text and sound."""

    height: float = 0
    """Height [px]; 0 for text and sound."""

    frames: float = 1
    """Frames in the clip; 1 for a picture."""

    gops: float = 1
    """Groups of pictures in the clip: how often its frames can be reached by a seek."""

    duration_s: float = 0
    """Length of sound or of a clip [s]; 0 if it is not known."""

    codec: str = ""
    """Format's name if known (``jpeg``, ``png``, ``h264`` …); cost estimates differ by it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Array:
    """A decoded field."""

    dtype: str
    """NumPy's name of the element type."""

    shape: tuple[float, ...]
    """Mean dimensions."""

    @property
    def nbytes(self) -> float:
        """Return the mean length [bytes]."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


Spec: TypeAlias = Encoded | Array


def picture_size(spec: Spec) -> tuple[float, float]:
    """Return (width, height) of a picture or clip [px], before or after decoding."""
    if isinstance(spec, Encoded):
        return spec.width, spec.height
    return spec.shape[-2], spec.shape[-3]


def resized(spec: Spec, *, width: float, height: float) -> Spec:
    """Return the spec of the same picture or clip at another size."""
    if isinstance(spec, Encoded):
        return spec
    return Array(dtype=spec.dtype, shape=(*spec.shape[:-3], height, width, 3))
