"""Reads single lines of JSON lines files by their place in the uncompressed text."""

from __future__ import annotations

from functools import lru_cache

from headrace.core.errors import CorruptDataError, CorruptSampleError
from headrace.dataset.documentline import PIECES, SENTENCES, text_in_parts
from headrace.dataset.location import SampleLocation
from headrace.dataset.textline import TextLine
from headrace.dataset.uncompressed import Uncompressed


class Lines:
    """The lines of all JSON lines files of a dataset. Thread-safe."""

    def __init__(self, files: Uncompressed) -> None:
        self._files = files

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the text of one line as UTF-8, as the field ``text``; joined if it is in parts.

        Raises:
            CorruptSampleError: the line holds no text, or the compressed file is damaged.
        """
        try:
            place = location.members[0]
            line = self._files.read(location.file_info(), place.offset, place.length)
            text = _text(line, place.name)
        except CorruptDataError as error:
            raise CorruptSampleError(f"{location.key}: {error}") from error
        return {"text": text.encode()}


def _text(line: bytes, key: str) -> str:
    in_parts = key in (PIECES, SENTENCES)
    return text_in_parts(line, key) if in_parts else _text_line(key).text(line)


@lru_cache(maxsize=16)
def _text_line(field: str) -> TextLine:
    """Making one takes longer than reading ten lines."""
    return TextLine(field)
