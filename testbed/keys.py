"""Fills frozen dataclasses from tables of TOML: unknown keys and wrong types are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import msgspec

from headrace.core.errors import ConfigError
from headrace.core.keys import key_hint

_T = TypeVar("_T")


def build(kind: type[_T], values: object, *, where: str) -> _T:
    """Return the dataclass with these values.

    Raises:
        ConfigError: A key is unknown or missing, or a value has the wrong type.
    """
    table = _table(values, where=where)
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown key {key!r} in {where}; {key_hint(key, list(known))}")
    for name, field in known.items():
        if name not in table and field.default is field.default_factory is MISSING:
            raise ConfigError(f"{where} lacks the key {name!r}")
    try:
        return msgspec.convert(dict(table), kind, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error


def tables(values: object, *, where: str) -> list[Mapping[str, Any]]:
    """Return an array of tables, as ``[[where]]`` makes it.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(values, list):
        raise ConfigError(f"{where} must be an array of tables: write [[{where}]]")
    return [_table(value, where=where) for value in values]


def _table(value: object, *, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a table, not {value!r}")
    return value
