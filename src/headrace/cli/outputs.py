"""Refuses a place where results cannot be written, before the work that makes them begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.core.errors import CallerError

F = TypeVar("F", bound=Callable[..., Any])


def json_option(text: str) -> Callable[[F], F]:
    """Add ``--json``, as ``json_file``, to a command; it is refused at once if it is of no use."""
    return click.option("--json", "json_file", metavar="FILE", callback=_writable, help=text)


def _writable(_: click.Context, __: click.Parameter, target: str | None) -> str | None:
    if target:
        require_writable_file(target)
    return target


def require_writable_file(target: str) -> None:
    """Return if a file can be written there, without leaving one; ``-`` is standard output.

    Raises:
        CallerError: it cannot.
    """
    path = Path(target)
    if target == "-":
        return
    if path.is_dir():
        raise CallerError(f"cannot write {target}: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise CallerError(f"cannot write {target}: there is no directory {path.parent}; make it")
    _require_writable(path, path if path.exists() else path.parent)


def require_writable_folder(path: Path) -> None:
    """Return if files can be written to a directory that exists or can be made.

    Raises:
        CallerError: they cannot.
    """
    place = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not place.is_dir():
        raise CallerError(f"cannot write to {path}: {place} is a file; name another directory")
    _require_writable(path, place)


def _require_writable(target: Path, place: Path) -> None:
    if not os.access(place, os.W_OK):
        raise CallerError(f"cannot write {target}: {place} is not yours to write to; name another")
