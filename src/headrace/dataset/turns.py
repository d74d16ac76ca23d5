"""Conversations in columns: lists of structs that say who said what, as those of LLaVA."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.errors import CorruptDataError
from headrace.dataset.documentline import CONVERSATION
from headrace.dataset.interleaved import joined

SAID = "value"
"""What the strings are called that were said."""


def turns_as(field: str, turns: Sequence[object]) -> str:
    """Return a field of a record that a conversation is.

    Args:
        field: ``text`` is what was said, one after another; ``json`` is all that the column holds.
        turns: The values of one row.

    Raises:
        CorruptDataError: a turn says nothing.
    """
    said = [turn.get(SAID) if isinstance(turn, dict) else None for turn in turns]
    if not all(isinstance(text, str) for text in said):
        raise CorruptDataError(f"a turn in {CONVERSATION!r} has no {SAID!r}")
    return joined(said) if field == "text" else msgspec.json.encode(turns).decode()
