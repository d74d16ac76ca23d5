"""Finds the features of a ``tf.train.Example``, and which fields of the record they become.

Bytes called like a medium, or ``…/encoded`` below such a name, are that medium. Whole numbers
called ``label``, ``cls``, ``class`` or ``…/label`` are the label, bytes named by ``text_field``,
``text``, ``caption``, ``…/text`` or ``…/caption`` the text. Other features keep their names as
``fieldnames`` says. Of several values of bytes each becomes a field with its number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import BinaryIO

from headrace.dataset.features import BYTES, FLOATS, INTEGERS
from headrace.dataset.fieldnames import own_fields
from headrace.dataset.location import Member
from headrace.dataset.media import LABEL_NAMES, MEDIA_NAMES, TEXT_NAMES
from headrace.dataset.protobuf import LENGTH, Field, Walk

FIELDS = 65_536
"""Most fields of all messages that one record consists of."""

NAME_BYTES = 1024
"""Longest name of a feature [bytes]."""

_LISTS = {1: BYTES, 2: FLOATS, 3: INTEGERS}

Feature = tuple[str, list[tuple[int, int]]]
"""Encoding of a feature, and where its values begin and end: each of bytes, a list of numbers."""


def example_features(stream: BinaryIO, begin: int, end: int) -> dict[str, Feature]:
    """Return the features of the example in ``[begin, end)`` of a stream that have values.

    Raises:
        ValueError: it is no such example.
    """
    walk = Walk(stream, FIELDS)
    found: dict[str, Feature] = {}
    for message in _messages(walk, begin, end, {1}):
        for entry in _messages(walk, message.begin, message.end, {1}):
            name, feature = _entry(walk, entry)
            if feature is not None:
                found[name] = feature
    return found


def example_members(found: Mapping[str, Feature], text_field: str) -> Iterator[Member]:
    """Yield the members that the features of an example are, in the order of their names."""
    names = _fields(found, text_field)
    for name, (encoding, places) in sorted(found.items()):
        for number, (begin, end) in enumerate(places):
            field = f"{names[name]}.{number}" if len(places) > 1 else names[name]
            yield Member(field=field, name=encoding, offset=begin, length=end - begin)


def _messages(walk: Walk, begin: int, end: int, known: Collection[int]) -> Iterator[Field]:
    for field in walk.fields(begin, end):
        if field.number not in known or field.wire_type != LENGTH:
            raise ValueError(f"field {field.number} is not known")
        yield field


def _entry(walk: Walk, entry: Field) -> tuple[str, Feature | None]:
    """Return the name of a feature and its values; None where it has none."""
    name, feature = "", None
    for part in _messages(walk, entry.begin, entry.end, {1, 2}):
        if part.number == 2:
            feature = _feature(walk, part)
        elif part.end - part.begin > NAME_BYTES:
            raise ValueError("a name is too long")
        else:
            name = walk.read(part).decode()
    return name, feature


def _feature(walk: Walk, part: Field) -> Feature | None:
    feature = None
    for held in _messages(walk, part.begin, part.end, _LISTS):
        encoding = _LISTS[held.number]
        places = [(held.begin, held.end)] if held.end > held.begin else []
        if encoding == BYTES:
            values = _messages(walk, held.begin, held.end, {1})
            places = [(value.begin, value.end) for value in values]
        feature = (encoding, places) if places else None
    return feature


def _fields(found: Mapping[str, Feature], text_field: str) -> dict[str, str]:
    """Return the field of each feature, by its name."""
    fields: dict[str, str] = {}
    for name, (encoding, _) in sorted(found.items(), key=lambda item: ("/" in item[0], item[0])):
        field = _canonical(name.lower(), encoding, text_field.lower())
        if field and field not in fields.values():
            fields[name] = field
    others = own_fields(sorted(found.keys() - fields.keys()), fields.values())
    return fields | others


def _canonical(name: str, encoding: str, text_field: str) -> str:
    """Return the field that a name in lower case stands for, or ''."""
    path, _, last = name.rpartition("/")
    if encoding == BYTES:
        if name == text_field or last in TEXT_NAMES:
            return "text"
        return MEDIA_NAMES.get(path if last == "encoded" else name, "")
    return "label" if encoding == INTEGERS and (name in LABEL_NAMES or last == "label") else ""
