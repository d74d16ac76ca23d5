"""Decodes a JPEG down to the last row that is needed: rows below it cost nothing.

Only a part of the file is given to the decoder, then a little more at a time, until it has
written the first row that is not needed. It writes rows from the top to the bottom, each once and
for good, so all above is then as if the whole file were decoded.
"""

from __future__ import annotations

from io import BytesIO

from PIL import ImageFile

_END = b"\xff\xd9"
_MORE = 0.03
"""Share of the file that is given beyond the rows' own, and then, each time twice as much again:
where a picture is black, nothing shows how far the decoder has come."""


def load_rows(image: ImageFile.ImageFile, data: bytes, rows: int) -> None:
    """Decode at least the upper ``rows`` of a picture; what is below them may stay black.

    The whole is decoded of what is no plain JPEG, whose rows come last, and of a file without an
    end, so that one that was truncated is told whatever is needed of it.

    Args:
        image: As opened, and shrunk or not.
        data: The file.
        rows: Of the picture as it will be.

    Raises: as ``image.load``.
    """
    is_plain = image.format == "JPEG" and not image.info.get("progressive")
    if rows >= image.height or not is_plain or not data.endswith(_END):
        image.load()
        return
    image.fp = _Given(data, image, rows)
    try:
        image.load()
    except _EnoughError:
        image.tile, image.fp = [], None  # as after a complete load


class _EnoughError(Exception):
    """Ends the loading of a picture whose needed rows are there."""


class _Given(BytesIO):
    """A file of which the decoder is given no more than it needs."""

    def __init__(self, data: bytes, image: ImageFile.ImageFile, rows: int) -> None:
        super().__init__(data)
        self._image = image
        self._row = rows
        self._piece = max(1, int(len(data) * _MORE))
        self._first = int(len(data) * rows / image.height) + self._piece
        self._is_begun = False

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next piece, of whatever size.

        Raises:
            _EnoughError: no more is needed.
        """
        if not self._is_begun:
            self._is_begun = True
            # A picture that is not black before it is decoded cannot tell what was.
            return super().read(size if self._is_written() else self._first)
        if self._is_written():
            raise _EnoughError
        piece, self._piece = self._piece, 2 * self._piece
        return super().read(piece)

    def _is_written(self) -> bool:
        """Whether the decoder has come to the first row that is not needed, as far as it shows."""
        pixels, last = self._image.im, self._image.width - 1
        return any(_is_light(pixels.getpixel((x, self._row))) for x in (last // 2, 0, last))


def _is_light(pixel: int | tuple[int, ...]) -> bool:
    return any(pixel) if isinstance(pixel, tuple) else bool(pixel)
