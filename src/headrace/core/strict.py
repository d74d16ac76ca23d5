"""Fills structures and dataclasses from parsed tables: what no field takes is refused.

msgspec checks types and bounds. Here are refused an unknown key, with the nearest known one,
and a number that is not finite, for ``inf`` and ``nan`` are valid TOML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from headrace.core.errors import ConfigError
from headrace.core.keys import key_hint

T = TypeVar("T")


def convert(document: Mapping[str, Any], kind: type[T], *, source: str) -> T:
    """Return the values of a parsed document.

    Args:
        document: As ``tomllib`` or a JSON reader returns it.
        kind: A ``msgspec.Struct`` or a dataclass, with others in its fields.
        source: What the document is called in errors.

    Raises:
        ConfigError: a key is unknown or missing, or a value is wrong.
    """
    _check(document, kind, source, ())
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"{source}: {error}") from error


def _check(value: Any, kind: Any, source: str, path: tuple[str, ...]) -> None:
    """Refuse keys that the structures in ``kind`` do not have, and what is not finite."""
    if get_origin(kind) in (Union, UnionType):
        kind = _meant(kind, value)
    known = _fields_of(kind)
    if isinstance(value, float) and not isfinite(value):
        raise ConfigError(f"{_place(source, path)}: {value} is no number to reckon with")
    if known is not None and isinstance(value, Mapping):
        for key, item in value.items():
            if key not in known:
                hint = key_hint(key, list(known))
                raise ConfigError(f"{_place(source, path)}: unknown key {key!r}; {hint}")
            _check(item, known[key], source, (*path, key))
    elif isinstance(value, list | Mapping):
        inner = get_args(kind)[-1:] or (Any,)
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            _check(item, inner[0], source, (*path, str(key)))


def _meant(union: Any, value: Any) -> Any:
    """Return the type of a union that a value is: the one it is tagged as, or the only one."""
    kinds = [one for one in get_args(union) if one is not type(None)]
    tagged = [one for one in kinds if isinstance(value, Mapping) and _tag_of(one) in value.items()]
    return next(iter(tagged or kinds)) if tagged or len(kinds) == 1 else Any


def _tag_of(kind: Any) -> tuple[str | None, Any]:
    """Return the key and the value by which a structure of a union is told."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.tag_field, kind.__struct_config__.tag
    return None, None


def _fields_of(kind: Any) -> dict[str, Any] | None:
    """Return the types of a structure's fields by key; None for anything else."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields_of = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        tag_field, _ = _tag_of(kind)
        return fields_of | ({tag_field: str} if tag_field else {})
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: hints[field.name] for field in fields(kind)}
    return None


def _place(source: str, path: tuple[str, ...]) -> str:
    return f"{source}: {'.'.join(path)}" if path else source
