"""Which columns of a table of rows become which fields of a record: Parquet and Arrow alike.

Media are structs with a binary ``bytes`` as Hugging Face writes them, or binary columns: one that
is called like a medium, else the first. Lists of these, and lists of names of files called
``images``, are several pictures. Hugging Face's features say which medium a column is and what
classes are called.
The text is the column named by ``text_field``, else ``text`` or ``caption``, else ``texts`` in
pieces, else what is said in ``conversations`` (``turns``), else, where there is no medium, the
first column of strings. A column of integers named
``label``, ``cls`` or ``class`` is the label. Other columns are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import pyarrow as pa

from headrace.dataset.documentline import CONVERSATION
from headrace.dataset.location import Kind
from headrace.dataset.media import LABEL_NAMES, MEDIA_NAMES, TEXT_NAMES
from headrace.dataset.turns import SAID

NAMES_OF_FILES = "images"
PIECES = "texts"

FEATURES_BYTES = 8 * 1024 * 1024
"""Longest description of features that is read [bytes]."""

_KINDS: dict[str, Kind] = {"Image": "image", "Audio": "audio", "Video": "video"}
_FEATURES_KEY = b"huggingface"


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """One column that becomes a field of the record, or several with numbers."""

    field: str
    path: str
    """Dotted path of the leaf, as Parquet names it; of a list, the list's."""

    form: Literal["value", "list", "pieces", "turns"] = "value"
    """A list has several values; pieces are those of one text, None where a picture stands; turns
    are those of a conversation."""

    file: str = ""
    """Path of the leaf that names a file where the medium is not in the column; '' if none is."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of all its leaves; that of a column without a name is ''."""
        return (self.path, self.file) if self.file else (self.path,)


class Feature(msgspec.Struct, frozen=True):
    """What Hugging Face says of a column."""

    type: str = msgspec.field(default="", name="_type")
    names: tuple[str, ...] = ()
    """Names of classes in the order of their numbers."""


def features_of(schema: pa.Schema) -> Mapping[str, Feature]:
    """Return what Hugging Face's metadata says of columns; nothing where there is none."""
    try:
        described = (schema.metadata or {})[_FEATURES_KEY]
        if len(described) > FEATURES_BYTES:
            return {}
        head = msgspec.json.decode(described, type=_Head)
        return {name: _feature(feature) for name, feature in head.info.features.items()}
    except (KeyError, msgspec.DecodeError, RecursionError):
        return {}


def choose_columns(schema: pa.Schema, text_field: str) -> tuple[FieldColumn, ...]:
    """Return the columns that make a record, at most one for each field."""
    chosen: dict[str, FieldColumn] = {}
    features = features_of(schema)
    for column in sorted(schema, key=_may_be_no_medium):
        found = (_medium(column, features), _label(column), _text(column, text_field))
        for each in found:
            if each is not None:
                chosen.setdefault(each.field, each)
    if text_field in schema.names and is_text(schema.field(text_field).type):
        chosen["text"] = FieldColumn("text", text_field)
    if "text" not in chosen and _is_list_of_texts(schema, PIECES):
        chosen["text"] = FieldColumn("text", PIECES, "pieces")
    if "text" not in chosen and _is_conversation(schema):
        chosen |= {field: FieldColumn(field, CONVERSATION, "turns") for field in ("text", "json")}
    if not set(chosen) - {"label"}:
        chosen |= _first_text(schema)
    return tuple(chosen.values()) if set(chosen) - {"label"} else ()


def paths_of(columns: Sequence[FieldColumn]) -> list[str]:
    """Return the paths of all leaves of columns, each once."""
    return list(dict.fromkeys(path for column in columns for path in column.paths))


def class_names(schema: pa.Schema, columns: tuple[FieldColumn, ...]) -> tuple[str, ...]:
    """Return the names of the classes that the label numbers; empty where nothing tells them."""
    features = features_of(schema)
    labels = (features.get(column.path) for column in columns if column.field == "label")
    return next((label.names for label in labels if label), ())


def no_columns(schema: pa.Schema) -> str:
    """Say why a file has no samples."""
    return (
        "no column of media (binary, or a struct with bytes) or text in it, but: "
        f"{', '.join(schema.names)}; name a column of strings by --text-field"
    )


def is_text(column_type: pa.DataType) -> bool:
    """Whether a column's values are strings."""
    return _values_of(column_type) in (pa.string(), pa.large_string(), pa.string_view())


class _Info(msgspec.Struct, frozen=True):
    features: dict[str, object] = {}


class _Head(msgspec.Struct, frozen=True):
    info: _Info = _Info()


def _feature(described: object) -> Feature:
    """Return what is said of a column, or of the elements of a list."""
    try:
        if isinstance(described, list):
            return _feature(described[0])
        feature = msgspec.convert(described, Feature)
        nested = described.get("feature") if isinstance(described, dict) else None
        return (
            feature if feature.type in (*_KINDS, "ClassLabel") or not nested else _feature(nested)
        )
    except (msgspec.ValidationError, IndexError):
        return Feature()


def _medium(column: pa.Field, features: Mapping[str, Feature]) -> FieldColumn | None:
    name, feature = column.name, features.get(column.name, Feature())
    kind = _KINDS.get(feature.type) or _called(name) or "image"
    if _is_list(column.type):
        element = column.type.value_type
        files = is_text(element) and name == NAMES_OF_FILES
        media = _is_binary(element) or _has_bytes(element)
        return FieldColumn(kind, name, "list") if media or files else None
    if _is_binary(column.type):
        return FieldColumn(kind, name)
    if _has_bytes(column.type):
        place = column.type.get_field_index("path")
        named = place >= 0 and is_text(column.type.field(place).type)
        return FieldColumn(kind, f"{name}.bytes", file=f"{name}.path" if named else "")
    return None


def _called(name: str) -> Kind | None:
    lowered = name.lower()
    return MEDIA_NAMES.get(lowered) or MEDIA_NAMES.get(lowered.removesuffix("s"))


def _may_be_no_medium(column: pa.Field) -> bool:
    """Whether a binary column may be a hash or a key as well: others are taken before it."""
    inner = column.type.value_type if _is_list(column.type) else column.type
    return not _has_bytes(inner) and not _called(column.name)


def _label(column: pa.Field) -> FieldColumn | None:
    named = column.name.lower() in LABEL_NAMES and pa.types.is_integer(column.type)
    return FieldColumn("label", column.name) if named else None


def _text(column: pa.Field, text_field: str) -> FieldColumn | None:
    named = column.name in (text_field, *TEXT_NAMES) and is_text(column.type)
    return FieldColumn("text", column.name) if named else None


def _is_list(column_type: pa.DataType) -> bool:
    return isinstance(column_type, (pa.ListType, pa.LargeListType))


def _is_list_of_texts(schema: pa.Schema, name: str) -> bool:
    column_type = schema.field(name).type if name in schema.names else None
    return column_type is not None and _is_list(column_type) and is_text(column_type.value_type)


def _is_conversation(schema: pa.Schema) -> bool:
    column_type = schema.field(CONVERSATION).type if CONVERSATION in schema.names else None
    if column_type is None or not _is_list(column_type):
        return False
    turn = column_type.value_type
    place = turn.get_field_index(SAID) if pa.types.is_struct(turn) else -1
    return place >= 0 and is_text(turn.field(place).type)


def _is_binary(column_type: pa.DataType) -> bool:
    return _values_of(column_type) in (pa.binary(), pa.large_binary(), pa.binary_view())


def _has_bytes(column_type: pa.DataType) -> bool:
    if not pa.types.is_struct(column_type):
        return False
    place = column_type.get_field_index("bytes")
    return place >= 0 and _is_binary(column_type.field(place).type)


def _values_of(column_type: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, whether or not each is stored only once."""
    return column_type.value_type if pa.types.is_dictionary(column_type) else column_type


def _first_text(schema: pa.Schema) -> dict[str, FieldColumn]:
    texts = [FieldColumn("text", column.name) for column in schema if is_text(column.type)]
    return {"text": texts[0]} if texts else {}
