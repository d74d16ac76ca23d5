"""Documents of texts and pictures: where in the text each picture stands.

A document's text has the mark ``<image>`` at the place of each picture, in their order. Texts that
come in pieces are joined by line breaks.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import CorruptDataError

MARK = "<image>"

PICTURES = 1024
"""Most pictures of one sample."""


def joined(pieces: Sequence[str | None]) -> str:
    """Return pieces as one text; a picture stands where there is None."""
    return "\n".join(MARK if piece is None else piece for piece in pieces)


def require_places(text: str | None, pictures: int) -> None:
    """Check that a text, if any, tells the place of each picture or of none.

    Raises:
        CorruptDataError: it tells places of more or fewer, or there are too many.
    """
    if pictures > PICTURES:
        raise CorruptDataError(f"it has {pictures} pictures, more than {PICTURES}")
    marks = text.count(MARK) if text else 0
    if marks not in (0, pictures):
        raise CorruptDataError(
            f"its text has places for {marks} pictures, but there are {pictures}"
        )
