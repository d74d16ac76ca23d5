"""Turns pictures upright as EXIF or a video's display matrix says."""

from __future__ import annotations

from typing import Literal

from PIL import Image

Orientation = Literal["ignore", "apply"]
"""``ignore`` leaves the pixels as stored, as torchvision does; ``apply`` turns them upright."""

_EXIF_ORIENTATION = 0x0112
_EXIF_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_COUNTERCLOCKWISE_TURNS = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}
_SWAPS_SIDES = frozenset(
    {
        Image.Transpose.TRANSPOSE,
        Image.Transpose.TRANSVERSE,
        Image.Transpose.ROTATE_90,
        Image.Transpose.ROTATE_270,
    }
)


def exif_turn(image: Image.Image) -> Image.Transpose | None:
    """Return what makes the picture upright; None if it is, or says nothing valid."""
    value = image.getexif().get(_EXIF_ORIENTATION)
    return _EXIF_TURNS.get(value) if isinstance(value, int) else None


def display_turn(degrees: int) -> Image.Transpose | None:
    """Return what makes a frame upright whose display matrix says ``degrees`` counterclockwise."""
    return _COUNTERCLOCKWISE_TURNS.get(degrees % 360)


def turned_size(size: tuple[int, int], turn: Image.Transpose | None) -> tuple[int, int]:
    """Return (width, height) after the turn."""
    return (size[1], size[0]) if turn in _SWAPS_SIDES else size
