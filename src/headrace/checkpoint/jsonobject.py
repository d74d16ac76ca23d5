"""Reads JSON objects that others wrote and no two readers may understand differently."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from headrace.core.errors import CorruptDataError

_MOST_SHOWN = 100
"""Letters of a name or value in an error."""


def parse_object(
    text: bytes, *, file: str, what: str, count: Callable[[str], int] | None = None
) -> dict[str, Any]:
    """Return a JSON object, in all of whose objects each name occurs once.

    Args:
        text: The object in UTF-8, nothing before it.
        file: What the file is called in errors.
        what: What it is in the file, such as ``header``.
        count: Turns digits into a number, or raises ValueError; then only whole numbers are
            allowed. None: numbers are what JSON allows, NaN is refused.

    Raises:
        CorruptDataError: it is no such object; says why.
    """
    if not text.startswith(b"{"):
        raise CorruptDataError(f"{file}: its {what} does not begin with {{; save it again")
    try:
        document: dict[str, Any] = json.loads(
            text.decode(),
            object_pairs_hook=_distinct,
            parse_int=count,
            parse_float=_refused if count else None,
            parse_constant=_refused,
        )
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{file}: its {what} is no valid JSON: {error}") from error
    return document


def shown(value: object) -> str:
    """Return what others wrote as it is shown in an error: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def is_unicode(text: str) -> bool:
    """Return whether a text can be written: JSON can name halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise ValueError(f"{shown(name)} occurs twice")
        document[name] = value
    return document


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no number that may stand here")
