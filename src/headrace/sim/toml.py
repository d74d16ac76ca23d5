"""Reads a scenario's TOML file into typed values."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

from headrace.core.errors import CallerError, NotFoundError
from headrace.core.strict import convert

S = TypeVar("S", bound=msgspec.Struct)


def read_toml(path: Path, kind: type[S]) -> S:
    """Return the file's values.

    Raises:
        NotFoundError: there is no such file.
        CallerError: it cannot be read, or is no TOML.
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
