"""Paths within a store: relative to its root, with ``/`` between names."""

from __future__ import annotations


def join(folder: str, path: str) -> str:
    """Return the path of what lies in a folder.

    Args:
        folder: Relative to the store's root; empty: the root itself.
        path: Relative to the folder.
    """
    return f"{folder}/{path}" if folder else path
