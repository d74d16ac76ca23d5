"""One JSON array of records: where each element lies, and which files hold such an array.

An element is read by its range, like a line of JSON lines. Other files of JSON lie beside many
datasets (settings, annotations of their files), so a name alone does not tell.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.documentline import DOCUMENT_BYTES, document_in
from headrace.dataset.media import TEXT_NAMES
from headrace.storage.port import FileInfo, Storage
from headrace.storage.rangefile import RangeFile

ENDING = ".json"

LOOKED_INTO = 100
"""Most files of JSON of a dataset that are looked into: more are of single samples each."""

OPENING_BYTES = 4096
"""Read of a file to see whether it is an array of records [bytes]."""

CHUNK_BYTES = 1 << 20
"""Read of an array at once; longer elements in growing pieces [bytes]."""

_OPENING = re.compile(rb"\s*\[\s*\{")
_BETWEEN = re.compile(rb"[\s,]*")
_BRACE = re.compile(rb'(?>[^"{}]+|"(?>[^"\\]+|\\.)*+")*+([{}"])', re.DOTALL)
"""To the next brace outside of strings, or to the beginning of a string without an end."""


class HasBytes(Protocol):
    """A stream of text, compressed or not."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; nothing at the end."""
        ...


def begins_array(text: bytes) -> bool:
    """Tell whether a text is the beginning of an array of objects."""
    return _OPENING.match(text) is not None


def take_arrays(
    storage: Storage, files: Sequence[FileInfo], others: dict[str, FileInfo]
) -> list[FileInfo]:
    """Take the arrays of records out of the files that hold no samples by their names.

    Where there are other samples, arrays whose first record is no document are annotations, and
    left there. So are JSON files beside a file of the same name, which say something of that one,
    and all of them where there are more than ``LOOKED_INTO``.
    """
    stems = {posixpath.splitext(file.path)[0] for file in files}
    found = [
        path
        for path, file in others.items()
        if path.lower().endswith(ENDING) and path == file.path
        if path[: -len(ENDING)] not in stems
    ]
    if len(found) > LOOKED_INTO:
        return []
    holds_samples = _begins_with_document if files else _is_array
    return [others.pop(path) for path in found if _is_taken(storage, others[path], holds_samples)]


def _is_taken(storage: Storage, file: FileInfo, holds_samples: Callable[[RangeFile], bool]) -> bool:
    """Tell whether a file holds samples; also of one that says why not when it is scanned."""
    try:
        with RangeFile(storage, file.path, 0, file.size, buffer_bytes=OPENING_BYTES) as stream:
            return holds_samples(stream)
    except CorruptDataError:
        return False
    except HeadraceError:
        return True


def _is_array(stream: RangeFile) -> bool:
    return begins_array(stream.peek(OPENING_BYTES))


def _begins_with_document(stream: RangeFile) -> bool:
    """Tell whether the first record of an array is a conversation, or a text with pictures.

    Raises:
        CorruptDataError: the record has no end.
    """
    if not _is_array(stream):
        return False
    _, first = next(elements(stream, DOCUMENT_BYTES))
    try:
        document = document_in(first, TEXT_NAMES[0])
    except CorruptDataError:  # A document of which something is broken, which its index tells.
        return True
    return document is not None and bool(document.key)


def elements(stream: HasBytes, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each object of an array.

    Args:
        stream: The text of the array, at its beginning.
        longest: Of an object [bytes].

    Raises:
        CorruptDataError: it is no array, ends within it, or has an element that is no object or
            is longer.
    """
    text = _Text(stream)
    text.pass_over(re.compile(rb"\s*"))
    text.at += text.next_byte() == b"["
    while True:
        text.pass_over(_BETWEEN)
        if text.next_byte() == b"]":
            break
        yield text.take_object(longest)
    text.at += 1
    text.pass_over(re.compile(rb"\s*"))
    if text.next_byte():
        raise CorruptDataError(f"byte {text.offset} lies behind the end of its array")


class _Text:
    """What was read of a stream and is still looked at."""

    def __init__(self, stream: HasBytes) -> None:
        self._stream = stream
        self._data = b""
        self._begin = 0
        """Offset of ``_data`` in the stream."""
        self.at = 0
        """Place in ``_data`` before which everything was looked at."""

    @property
    def offset(self) -> int:
        """Where the next byte is in the stream."""
        return self._begin + self.at

    def next_byte(self) -> bytes:
        """Return the next byte; nothing at the end."""
        return self._data[self.at : self.at + 1]

    def pass_over(self, pattern: re.Pattern[bytes]) -> None:
        """Go on to what the pattern does not take."""
        while True:
            match = pattern.match(self._data, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self._data) or not self._more():
                return

    def take_object(self, longest: int) -> tuple[int, bytes]:
        """Return the offset and the bytes of the object that begins here, and go behind it."""
        if self.next_byte() not in (b"{", b""):
            raise CorruptDataError(f"byte {self.offset} begins no JSON object, as all must be")
        depth = length = 0
        while not length or depth:
            match = _BRACE.match(self._data, self.at + length)
            if match is None or match[1] == b'"':
                self._require_more(longest)
                continue
            depth += 1 if match[1] == b"{" else -1
            length = match.end() - self.at
        found = self.offset, self._data[self.at : self.at + length]
        self.at += length
        return found

    def _require_more(self, longest: int) -> None:
        if len(self._data) - self.at > longest:
            raise CorruptDataError(
                f"the element from byte {self.offset} on is longer than {longest} B; divide it, "
                "or leave it out"
            )
        if not self._more():
            raise CorruptDataError("it ends before its array does")

    def _more(self) -> bool:
        """Read on, at least as much as is still looked at; tell whether there was anything."""
        rest = self._data[self.at :]
        chunk = self._stream.read(max(CHUNK_BYTES, len(rest)))
        self._begin += self.at
        self._data, self.at = rest + chunk, 0
        return bool(chunk)
