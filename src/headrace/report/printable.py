"""Names that others chose, as a terminal may see them."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a line of text without letters that would drive the terminal or begin a new line."""
    return "".join(one if one.isprintable() else "�" for one in text)
