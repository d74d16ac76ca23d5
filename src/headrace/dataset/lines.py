"""Reads single lines of JSON lines files by their place in the uncompressed text."""

from __future__ import annotations

from functools import lru_cache

from headrace.core.errors import CorruptDataError, CorruptSampleError
from headrace.dataset.documentline import CONVERSATION, IN_PARTS, conversation_in, text_in_parts
from headrace.dataset.location import Member, SampleLocation
from headrace.dataset.textline import TextLine
from headrace.dataset.uncompressed import Uncompressed


class Lines:
    """The lines of all JSON lines files of a dataset. Thread-safe."""

    def __init__(self, files: Uncompressed) -> None:
        self._files = files

    def read(self, location: SampleLocation) -> dict[str, bytes]:
        """Return the text of one line as UTF-8, joined if in parts, and of conversations the JSON.

        Raises:
            CorruptSampleError: the line holds no text, or the compressed file is damaged.
        """
        try:
            place = location.members[0]
            line = self._files.read(location.file_info(), place.offset, place.length)
            return {member.field: _field(line, member) for member in location.members}
        except CorruptDataError as error:
            raise CorruptSampleError(f"{location.key}: {error}") from error


def _field(line: bytes, member: Member) -> bytes:
    if member.name == CONVERSATION and member.field == "json":
        return conversation_in(line)
    in_parts = member.name in IN_PARTS
    text = text_in_parts(line, member.name) if in_parts else _text_line(member.name).text(line)
    return text.encode()


@lru_cache(maxsize=16)
def _text_line(field: str) -> TextLine:
    """Making one takes longer than reading ten lines."""
    return TextLine(field)
