"""Which part of a picture becomes which size: pure geometry, decided before decoding.

A decoder that knows the window can decode less: JPEG can be reconstructed at 1/2, 1/4
or 1/8 from its DCT coefficients for a fraction of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from headrace.core.errors import CorruptSampleError

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
"""Pillow's filters; all but ``nearest`` are antialiased when shrinking, as in torchvision."""

Box = tuple[int, int, int, int]
Size = tuple[int, int]

MAX_OUTPUT_PIXELS = 1 << 27
"""Largest picture that a resize may make [px]: a 1 x 60000 strip must not become gigabytes."""

_SCALES = (8, 4, 2)
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True, slots=True)
class Window:
    """Cut ``box`` out of a picture, then resize it to ``size``."""

    box: Box
    """Left, top, right, bottom [px]; parts outside the picture are black."""

    size: Size
    """Width and height of the result [px]."""

    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        width, height = self.size
        if width * height > MAX_OUTPUT_PIXELS:
            raise CorruptSampleError(
                f"a {self.box[2] - self.box[0]} x {self.box[3] - self.box[1]} px picture would be "
                f"resized to {width} x {height}, above {MAX_OUTPUT_PIXELS} px; leave it out"
            )

    def scale(self) -> int:
        """Return the largest of 8, 4, 2, 1 at which the box still has as many pixels as the result.

        What is left to do is then a shrink by less than 2, done by the filter as ever, so
        the result is close to that of full decoding (see the tolerance in the tests).
        """
        left, top, right, bottom = self.box
        ratio = min((right - left) / self.size[0], (bottom - top) / self.size[1])
        return next((scale for scale in _SCALES if ratio >= scale), 1)

    def rows(self, scale: int) -> int:
        """Return how many rows ``apply`` looks at, from the top of a picture at ``1 / scale``."""
        return ceil(self.box[3] / scale)

    def apply(self, image: Image.Image, *, scale: int = 1) -> Image.Image:
        """Return the window of a picture that was decoded at ``1 / scale`` of its size."""
        if scale == 1:
            image = self._cut(image, self.box)
            return image if image.size == self.size else image.resize(self.size, self._filter)
        left, top, right, bottom = (edge / scale for edge in self.box)
        outer = (
            floor(left),
            floor(top),
            min(ceil(right), image.width),
            min(ceil(bottom), image.height),
        )
        inner = (left - outer[0], top - outer[1], right - outer[0], bottom - outer[1])
        part = self._cut(image, outer)
        inner = (*inner[:2], min(inner[2], part.width), min(inner[3], part.height))
        return part.resize(self.size, self._filter, box=inner)

    def apply_to_array(self, pixels: npt.NDArray[np.uint8]) -> Image.Image:
        """Return the same as ``apply`` for ``uint8 [H, W, 3]``, without copying what is cut off."""
        left, top, right, bottom = self.box
        height, width = pixels.shape[:2]
        if left < 0 or top < 0 or right > width or bottom > height:
            return self.apply(Image.fromarray(pixels))
        part = Image.fromarray(pixels[top:bottom, left:right])
        return part if part.size == self.size else part.resize(self.size, self._filter)

    @property
    def _filter(self) -> Image.Resampling:
        return _FILTERS[self.interpolation]

    @staticmethod
    def _cut(image: Image.Image, box: Box) -> Image.Image:
        return image if box == (0, 0, *image.size) else image.crop(box)
