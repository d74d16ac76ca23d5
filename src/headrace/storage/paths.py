"""Paths within a store, with ``/`` between names."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Sequence

from headrace.core.errors import CallerError


def join(folder: str, path: str) -> str:
    """Return the path of what lies in a folder.

    Args:
        folder: Relative to the store's root; empty: the root itself.
        path: Relative to the folder.
    """
    return f"{folder}/{path}" if folder else path


def hidden_part(path: str) -> str:
    """Return a name of its own, beside a file, for what is to become that file once it is whole."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.{secrets.token_hex(4)}.part")


def require_below(path: str, root: str) -> None:
    """Check that a path names something below the root of a store.

    Raises:
        CallerError: it does not; names the root.
    """
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise CallerError(
            f"path {path!r} leaves the root {root}; give a path relative to it, without '..'"
        )


def folder_of_parts(parts: Sequence[str]) -> str:
    """Return the one folder of files that are to be joined.

    Raises:
        CallerError: there are none, one is named twice, or they are in several folders.
    """
    folders = {posixpath.dirname(part) for part in parts}
    if len(folders) != 1 or len(set(parts)) != len(parts):
        raise CallerError(
            f"{len(parts)} parts in {len(folders)} folders cannot be joined; name each once, at "
            "least one, all in one folder"
        )
    return folders.pop()
