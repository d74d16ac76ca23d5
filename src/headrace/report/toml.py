"""TOML documents: read into typed values, and written from them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import FieldInfo, fields

from headrace.core.errors import CallerError, NotFoundError
from headrace.core.strict import convert

S = TypeVar("S", bound=msgspec.Struct)

_DIGITS = 6
"""Of a fraction that is written."""


def read_toml(path: Path, kind: type[S]) -> S:
    """Return the file's values.

    Raises:
        NotFoundError: there is no such file.
        CallerError: it cannot be read, or is no TOML.
        ConfigError: a key is unknown, missing, or has a wrong value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}; name a TOML file") from error
    except OSError as error:
        raise CallerError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CallerError(f"{path} is no TOML: {error}; correct it there") from error
    return parse_toml(text, kind, source=str(path))


def parse_toml(text: str, kind: type[S], *, source: str) -> S:
    """Return a document's values; ``source`` is what it is called in errors.

    Raises:
        CallerError: it is no TOML.
        ConfigError: a key is unknown, missing, or has a wrong value.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CallerError(f"{source} is no TOML: {error}; correct it there") from error
    return convert(document, kind, source=source)


def toml_text(value: msgspec.Struct) -> str:
    """Return a structure as TOML: a table for each structure in it, a line for each of a union.

    What is as it would be if it were not written is left out; fractions have six digits.
    """
    return "\n".join(_table((), value)) + "\n"


def _table(path: tuple[str, ...], table: msgspec.Struct | Mapping[str, Any]) -> Iterator[str]:
    items = _items(table)
    inner = {key: one for key, one in items.items() if _is_table(one)}
    plain = {key: one for key, one in items.items() if key not in inner}
    if path and (plain or not inner):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, one in plain.items():
        yield f"{_key(key)} = {_literal(one)}"
    for key, one in inner.items():
        yield from _table((*path, key), one)


def _items(table: msgspec.Struct | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(table, Mapping):
        return table
    config = table.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field and config.tag else {}
    values = {one.name: (getattr(table, one.name), _usual(one)) for one in fields(table)}
    return tag | {name: value for name, (value, usual) in values.items() if value != usual}


def _usual(field: FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _is_table(value: Any) -> bool:
    """Tell whether a value has a table of its own: one of a union is a few words on a line."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_config__.tag is None
    return isinstance(value, Mapping)


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.{_DIGITS}g}"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case msgspec.Struct():
            inner = (f"{_key(key)} = {_literal(one)}" for key, one in _items(value).items())
            return f"{{ {', '.join(inner)} }}"
        case list() | tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case _:
            return str(value)


def _key(key: str) -> str:
    is_bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if is_bare else _literal(key)
