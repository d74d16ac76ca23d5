"""Which column of an MDS shard becomes which field of the record.

The picture is the first column of pictures, one that is called like an image before others;
columns of bytes that are called like a medium are that medium. Whole numbers called ``label``,
``cls`` or ``class`` are the label. The text is the string named by ``text_field``, else ``text``
or ``caption``, else, where there is no medium, the first string. Other columns keep their
names as ``fieldnames`` says. Pickles are not read, and encodings that are not known neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.dataset.fieldnames import own_fields
from headrace.dataset.mdsvalues import LISTS, PICTURES, is_integer, is_known
from headrace.dataset.media import LABEL_NAMES, MEDIA_NAMES, TEXT_NAMES


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a shard."""

    name: str
    encoding: str
    size: int | None
    """Bytes of each value; None where they differ."""


def name_fields(columns: Sequence[Column], text_field: str) -> dict[str, str]:
    """Return the field of each column that is read, by the column's name; empty if none is."""
    known = [column for column in columns if is_known(column.encoding)]
    fields: dict[str, str] = {}
    for field, column in _claims(known, text_field):
        if column.name not in fields and field not in fields.values():
            fields[column.name] = field
    others = own_fields((c.name for c in known if c.name not in fields), fields.values())
    return fields | others


def _claims(columns: Sequence[Column], text_field: str) -> Iterator[tuple[str, Column]]:
    """Yield fields and the columns that may be them, the best first."""
    pictures = [c for c in columns if c.encoding in PICTURES or c.encoding in LISTS]
    yield from (("image", c) for c in sorted(pictures, key=lambda c: _medium(c) != "image"))
    sounding = [c for c in columns if c.encoding == "bytes" and _medium(c)]
    yield from ((_medium(c), c) for c in sounding)
    yield from (("label", c) for c in _named(columns, LABEL_NAMES) if is_integer(c.encoding))
    texts = [c for c in columns if c.encoding == "str"]
    yield from (("text", c) for c in _named(texts, (text_field, *TEXT_NAMES)))
    if not pictures and not sounding:
        yield from (("text", c) for c in texts)
    yield from (("json", c) for c in columns if c.encoding == "json")


def _medium(column: Column) -> str:
    return MEDIA_NAMES.get(column.name.lower(), "")


def _named(columns: Iterable[Column], names: Sequence[str]) -> Iterator[Column]:
    """Yield the columns called by one of the names, in the order of these."""
    by_name = {column.name.lower(): column for column in columns}
    return (by_name[name.lower()] for name in names if name.lower() in by_name)
