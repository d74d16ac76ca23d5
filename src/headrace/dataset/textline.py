"""One line of JSON, of which one field is the text."""

from __future__ import annotations

import msgspec

from headrace.core.errors import CorruptSampleError

_ERRORS = (msgspec.DecodeError, RecursionError)
"""What comes of bytes that are no such JSON; the second of what is nested without end."""


class TextLine:
    """Takes the text out of lines; the other fields are passed over without being built."""

    def __init__(self, field: str) -> None:
        self.field = field
        line = msgspec.defstruct("Line", [("text", str)], rename={"text": field})
        self._decoder = msgspec.json.Decoder(line)

    def text(self, line: bytes) -> str:
        """Return the text in a line.

        Raises:
            CorruptSampleError: the line is not a JSON object with a string of that name.
        """
        try:
            text: str = self._decoder.decode(line).text  # type: ignore[attr-defined]
        except _ERRORS as error:
            raise CorruptSampleError(self._why(line, error)) from error
        return text

    def fault(self, line: bytes) -> str | None:
        """Return why there is no text in a line; None if there is."""
        try:
            self._decoder.decode(line)
        except _ERRORS as error:
            return self._why(line, error)
        return None

    def _why(self, line: bytes, error: Exception) -> str:
        if not isinstance(error, msgspec.ValidationError):
            return f"not a line of JSON: {error}"
        try:
            names = ", ".join(sorted(msgspec.json.decode(line, type=dict[str, object])))
        except _ERRORS:
            return f"not a JSON object: {error}"
        return f"no string named {self.field!r} in it, but: {names}; name another by --text-field"
