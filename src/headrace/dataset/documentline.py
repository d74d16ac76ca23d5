"""One line of JSON that is a document of texts and pictures, a caption of one, or a conversation.

Pictures are names of files in ``images``, in ``image``, or as ``image_name`` in ``image_info``;
what is no name of a picture is not looked at, so that other lines stay texts. The text is a string;
``texts`` in pieces, None where a picture of ``images`` stands; sentences in ``text_list``,
before which those pictures stand whose ``matched_text_index`` is theirs; or what is said in
``conversations``, which may be about no picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from headrace.core.errors import CorruptDataError
from headrace.core.numbered import numbered
from headrace.dataset.interleaved import joined, require_places
from headrace.dataset.media import TEXT_NAMES, media_kind

PIECES, SENTENCES, TURNS = "texts[]", "text_list[]", "conversations[]"
"""What stands for the key of a text that is in pieces, in sentences, or said in turns."""

CONVERSATION = "conversations"
"""Key of the turns of a conversation: who says what."""

DOCUMENT_BYTES = 8 * 1024 * 1024
"""Longest line that is looked at as a document; longer ones are texts [bytes]."""

_MAY_BE = (b'"image"', b'"images"', b'"image_info"', b'"conversations"')
_ERRORS = (msgspec.DecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Document:
    """What a line says."""

    text: str | None
    key: str
    """Key of the text, or ``PIECES``, ``SENTENCES`` or ``TURNS``; '' without one."""

    pictures: dict[str, str]
    """Field → name of the file."""


class _Info(msgspec.Struct, frozen=True):
    image_name: str = ""
    matched_text_index: int = -1


class _Turn(msgspec.Struct, frozen=True):
    value: str


class _Line(msgspec.Struct, frozen=True):
    """The keys that are looked at; whatever else they hold says that the line is no document."""

    image: object = None
    images: object = None
    image_info: object = None
    texts: object = None
    text_list: object = None
    conversations: object = None


_decoder = msgspec.json.Decoder(_Line)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def document_in(line: bytes, text_field: str) -> Document | None:
    """Return the document that a line is; None if it is a text with its key, or no JSON.

    Raises:
        CorruptDataError: pictures and text do not fit together.
    """
    if len(line) > DOCUMENT_BYTES or not any(key in line for key in _MAY_BE):
        return None
    try:
        found = _decoder.decode(line)
        pictures = _pictures(found)
        if not pictures and not isinstance(found.conversations, list):
            return None
        text, key = _text(line, found, text_field)
        if not pictures and key != TURNS:
            return None
    except _ERRORS:
        return None
    require_places(text, len(pictures))
    return Document(text, key, pictures)


def text_in_parts(line: bytes, key: str) -> str:
    """Return the text of a document whose key is one of ``IN_PARTS``.

    Raises:
        CorruptDataError: the line has no such text.
    """
    try:
        found = _decoder.decode(line)
    except _ERRORS as error:
        raise CorruptDataError(f"not a JSON object: {error}") from error
    return IN_PARTS[key](found)


def conversation_in(line: bytes) -> bytes:
    """Return the turns of a conversation, as JSON.

    Raises:
        CorruptDataError: the line has none.
    """
    try:
        return bytes(_fields.decode(line)[CONVERSATION])
    except (*_ERRORS, KeyError) as error:
        raise CorruptDataError(f"not a JSON object with a conversation: {error}") from error


def _pictures(found: _Line) -> dict[str, str]:
    """Return the names of pictures by their fields; nothing unless all are names of pictures."""
    if isinstance(found.image, str):
        return {"image": found.image} if _is_picture(found.image) else {}
    names: Sequence[object] = ()
    several = found.image if isinstance(found.image, list) else found.images
    if isinstance(several, list):
        names = [name for name in several if name is not None]
    elif isinstance(found.image_info, list):
        names = [info.image_name for info in _in_order(found)]
    if not all(isinstance(name, str) and _is_picture(name) for name in names):
        return {}
    return {numbered("image", number): str(name) for number, name in enumerate(names)}


def _is_picture(name: str) -> bool:
    return "://" not in name and media_kind(name) == "image"


def _text(line: bytes, found: _Line, text_field: str) -> tuple[str | None, str]:
    raw = _fields.decode(line)
    for key in (text_field, *TEXT_NAMES):
        text = msgspec.json.decode(raw[key]) if key in raw else None
        if isinstance(text, str):
            return text, key
    parts = {PIECES: found.texts, SENTENCES: found.text_list, TURNS: found.conversations}
    key = next((key for key, part in parts.items() if isinstance(part, list)), "")
    return (IN_PARTS[key](found), key) if key else (None, "")


def _in_pieces(found: _Line) -> str:
    try:
        return joined(msgspec.convert(found.texts, list[str | None]))
    except msgspec.ValidationError as error:
        raise CorruptDataError(f"'texts' are no strings: {error}") from error


def _in_sentences(found: _Line) -> str:
    try:
        sentences = msgspec.convert(found.text_list, list[str])
    except msgspec.ValidationError as error:
        raise CorruptDataError(f"'text_list' has no strings: {error}") from error
    before: dict[int, int] = {}
    for info in _in_order(found):
        before[info.matched_text_index] = before.get(info.matched_text_index, 0) + 1
    if not before.keys() <= set(range(len(sentences))):
        raise CorruptDataError("a 'matched_text_index' is that of no text in 'text_list'")
    pieces: list[str | None] = []
    for number, sentence in enumerate(sentences):
        pieces += [None] * before.get(number, 0)
        pieces.append(sentence)
    return joined(pieces)


def _in_turns(found: _Line) -> str:
    try:
        return joined([turn.value for turn in msgspec.convert(found.conversations, list[_Turn])])
    except msgspec.ValidationError as error:
        raise CorruptDataError(
            f"'conversations' have no strings called 'value': {error}"
        ) from error


IN_PARTS: dict[str, Callable[[_Line], str]] = {
    PIECES: _in_pieces,
    SENTENCES: _in_sentences,
    TURNS: _in_turns,
}
"""What stands for a text's key → what makes the text of its parts."""


def _in_order(found: _Line) -> list[_Info]:
    """Return the pictures of ``image_info`` in the order of their places in the text."""
    try:
        infos = msgspec.convert(found.image_info, list[_Info])
    except msgspec.ValidationError:
        return []
    return sorted(infos, key=lambda info: info.matched_text_index)
