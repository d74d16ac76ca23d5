"""Finds what a mistyped path probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path


def nearest_existing(path: Path) -> Path | None:
    """Return the existing path most like ``path``, or None if nothing is alike.

    Only the first component that does not exist is compared, with its siblings.
    """
    parent, name = _first_missing(path)
    try:
        siblings = [entry.name for entry in parent.iterdir() if entry.name != name]
    except OSError:
        return None
    matches = get_close_matches(name, siblings, n=1, cutoff=0.6)
    return parent / matches[0] if matches else None


def did_you_mean(path: Path) -> str:
    """Return a clause for the end of an error message, with its punctuation."""
    nearest = nearest_existing(path)
    return f"; did you mean {nearest}?" if nearest else "; check the spelling"


def is_pattern(path: Path) -> bool:
    """Whether a path that is not there looks like one that others expand: ``*.tar``, ``{0..9}``."""
    return any(sign in _first_missing(path)[1] for sign in "*?[{")


def _first_missing(path: Path) -> tuple[Path, str]:
    missing = path
    while not missing.parent.exists() and missing.parent != missing:
        missing = missing.parent
    return missing.parent, missing.name
