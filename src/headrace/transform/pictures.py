"""Decoded pictures on their way from op to op: Pillow images, turned to arrays only at a cut.

Both directions copy bytes and change none, so cutting a pipeline here changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from headrace.core.errors import ConfigError
from headrace.core.record import AnyArray

Bytes3 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Pictures:
    """One RGB picture, or the frames of one clip, all of the same size."""

    images: tuple[Image.Image, ...]
    """Pillow images of mode ``RGB``."""

    clip: bool
    """The value is a clip, ``uint8 [T, H, W, 3]``, even if it has one frame."""

    def map(self, change: Callable[[Image.Image], Image.Image]) -> Pictures:
        """Return the pictures after ``change`` was applied to each."""
        return Pictures(tuple(change(image) for image in self.images), self.clip)

    @property
    def size(self) -> tuple[int, int]:
        """Return (width, height) [px]."""
        return self.images[0].size

    def array(self) -> Bytes3:
        """Return ``uint8 [H, W, 3]``, or ``[T, H, W, 3]`` of a clip: new, writable, contiguous."""
        if not self.clip:
            return np.array(self.images[0])
        width, height = self.size
        frames = np.empty((len(self.images), height, width, 3), np.uint8)
        for frame, image in zip(frames, self.images, strict=True):
            frame[...] = np.asarray(image)
        return frames


def pictures_of(array: AnyArray, field: str) -> Pictures:
    """Return the pictures that an array holds.

    Raises:
        ConfigError: it is not ``uint8 [H, W, 3]`` or ``[T, H, W, 3]``.
    """
    if (
        array.dtype != np.uint8
        or array.ndim not in (3, 4)
        or array.shape[-1] != 3
        or not array.size
    ):
        raise ConfigError(
            f"field {field!r} is {array.dtype} {list(array.shape)}, but picture ops take "
            "uint8 [H, W, 3] or [T, H, W, 3]; move to_float and normalize behind them"
        )
    frames = array if array.ndim == 4 else array[None]
    return Pictures(tuple(Image.fromarray(frame) for frame in frames), array.ndim == 4)
