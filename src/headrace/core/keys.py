"""What to say about a key that is not known: pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def key_hint(key: str, known: Sequence[str]) -> str:
    """Return a clause that names the known key most like ``key``, or else all of them."""
    near = get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"keys are {', '.join(known)}"
