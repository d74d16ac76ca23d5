"""Turns a TOML file into typed values; a key that is not known is refused with the nearest one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from headrace.core.errors import CallerError, ConfigError, NotFoundError
from headrace.core.keys import key_hint

S = TypeVar("S", bound=msgspec.Struct)


def read_toml(path: Path, kind: type[S]) -> S:
    """Return the file's values.

    Raises:
        NotFoundError: there is no such file.
        CallerError: it is no TOML.
        ConfigError: a key is unknown, missing, or has a wrong value.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}; name a scenario's TOML file") from error
    except OSError as error:
        raise CallerError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise CallerError(f"{path} is no TOML: {error}; correct it there") from error
    return convert(document, kind, source=str(path))


def convert(document: Mapping[str, Any], kind: type[S], *, source: str) -> S:
    """Return the values of a parsed document.

    Raises:
        ConfigError: a key is unknown, missing, or has a wrong value.
    """
    _check_keys(document, kind, source)
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        reason = error.__cause__ if isinstance(error.__cause__, ConfigError) else error
        raise ConfigError(f"{source}: {reason}") from error


def _check_keys(value: Any, kind: Any, where: str) -> None:
    """Refuse keys that the structures in ``kind`` do not have, however deep."""
    if get_origin(kind) in (Union, UnionType):
        kind = next((one for one in get_args(kind) if one is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        _check_struct(value, kind, where)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_keys(item, get_args(kind)[0], f"{where}[{number}]")
    elif isinstance(value, dict) and get_args(kind):
        for key, item in value.items():
            _check_keys(item, get_args(kind)[-1], f"{where}.{key}")


def _check_struct(value: Any, kind: type[msgspec.Struct], where: str) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table, found {value!r}")
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for key, item in value.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}; {key_hint(key, list(known))}")
        _check_keys(item, known[key], f"{where}: {key}")
