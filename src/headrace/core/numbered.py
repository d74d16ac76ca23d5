"""Names of fields of which a sample has several: ``image.0``, ``image.1`` and so on."""

from __future__ import annotations

import re
from functools import lru_cache

_NUMBERED = re.compile(r"(.+)\.(0|[1-9][0-9]{0,6})", re.DOTALL)


@lru_cache(maxsize=4096)
def split_number(field: str) -> tuple[str, int | None]:
    """Return the name that a field shares with its like, and its number; None where it has none."""
    found = _NUMBERED.fullmatch(field)
    return (found[1], int(found[2])) if found else (field, None)


def shared_name(field: str) -> str:
    """Return ``image`` for ``image.0``; a name without a number as it is."""
    return split_number(field)[0]


def is_numbered(field: str) -> bool:
    """Whether the field is one of several."""
    return split_number(field)[1] is not None


def numbered(field: str, number: int) -> str:
    """Return the name of one of several fields."""
    return f"{field}.{number}"
