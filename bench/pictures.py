"""The work that loaders are compared by: JPEG → random resized crop → flip → normalised floats.

Needs numpy and Pillow only, so that loaders in environments of their own do it alike.
"""

from __future__ import annotations

import io
from math import exp, log, sqrt
from random import Random

import numpy as np
from PIL import Image

SIDE = 224
"""Width and height of a crop [px]."""

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
"""Share of the picture that a crop may cover, and its width / height."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom [px]."""

_ATTEMPTS = 10
_SCALES = (8, 4, 2)
_GAIN = (1 / (255 * np.array(STD))).astype(np.float32).reshape(3, 1, 1)
_SHIFT = (-np.array(MEAN) / np.array(STD)).astype(np.float32).reshape(3, 1, 1)


def normalised(crop: Image.Image, out: np.ndarray) -> None:
    """Write a picture as normalised floats ``[3, H, W]``."""
    np.multiply(np.asarray(crop).transpose(2, 0, 1), _GAIN, out=out)
    out += _SHIFT


def write_crop(data: bytes, draw: Random, out: np.ndarray) -> None:
    """Decode a JPEG and write a random crop of it.

    Scaled in the DCT where the crop has twice the pixels that are needed, or more.

    Args:
        data: The file.
        draw: Decides on the crop and the flip.
        out: ``float32 [3, SIDE, SIDE]``.
    """
    with Image.open(io.BytesIO(data)) as image:
        box = random_box(*image.size, draw)
        scale = _scale(box)
        if scale > 1:
            image.draft(None, (image.width // scale, image.height // scale))
        inner = tuple(edge / scale for edge in box)
        crop = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=inner)
    if draw.random() < 0.5:
        crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    normalised(crop, out)


def random_box(width: int, height: int, draw: Random) -> Box:
    """Return a box of random area and aspect ratio, by torchvision's rule."""
    for _ in range(_ATTEMPTS):
        area = width * height * draw.uniform(*AREA)
        aspect = exp(draw.uniform(log(ASPECT[0]), log(ASPECT[1])))
        wide, high = round(sqrt(area * aspect)), round(sqrt(area / aspect))
        if 0 < wide <= width and 0 < high <= height:
            left, top = draw.randint(0, width - wide), draw.randint(0, height - high)
            return left, top, left + wide, top + high
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _scale(box: Box) -> int:
    ratio = min(box[2] - box[0], box[3] - box[1]) / SIDE
    return next((scale for scale in _SCALES if ratio >= scale), 1)
