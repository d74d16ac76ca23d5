"""Looks at a root of checkpoints again and again, and only at what changed since.

One listing tells which folders changed; what a folder is, which takes reading metadata, is asked
of the layouts only for those.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.checkpoint.find import find_checkpoints, open_checkpoint
from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.naming import is_hidden
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.storage.port import FileInfo, Storage


@dataclass(frozen=True, slots=True)
class Damaged:
    """A folder that is of some layout, and cannot be read as that."""

    path: str
    reason: str


Found = Checkpoint | Damaged


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a folder was when it was last looked at."""

    files: tuple[FileInfo, ...]
    found: tuple[Found, ...]


class RootWatcher:
    """What lies in a root of checkpoints. For one thread.

    Args:
        storage: The store at the root.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, _Looked] = {}

    def look(self) -> list[Found]:
        """Return all checkpoints, complete or not; changed ones are looked at anew.

        Raises:
            NotFoundError: the root is not there any more.
            StorageError: it cannot be listed or read.
        """
        children = self._children()
        self._known = {
            child: self._look_at(child, tuple(files)) for child, files in children.items()
        }
        found = [one for looked in self._known.values() for one in looked.found]
        below = [one for one in found if one.path]
        return below or found  # a root that has checkpoints is none itself

    def files_in(self, folder: str) -> list[FileInfo]:
        """Return the files directly in a folder, as of the last look; hidden ones are left out."""
        looked = self._known.get(folder.partition("/")[0])
        return [
            info
            for info in (looked.files if looked else ())
            if info.path.rpartition("/")[0] == folder and not is_hidden(info.path)
        ]

    def _children(self) -> dict[str, list[FileInfo]]:
        """Return the folders in the root with all their files, and the root with its own.

        Files beside folders count as theirs too: pointers lie there.
        """
        children: dict[str, list[FileInfo]] = defaultdict(list)
        for info in self._storage.list():
            child, slash, _ = info.path.partition("/")
            if not child.startswith(".") or not slash:
                children[child if slash else ""].append(info)
        beside = children.get("", [])
        return {
            child: files + beside if child else files for child, files in sorted(children.items())
        }

    def _look_at(self, child: str, files: tuple[FileInfo, ...]) -> _Looked:
        known = self._known.get(child)
        if known is not None and known.files == files:
            return known
        found = [_named_in_text(one) for one in _found_in(self._storage, child)]
        return _Looked(files, tuple(found))


def _named_in_text(found: Found) -> Found:
    """Return what was found; as damaged where a name in it cannot be written down anywhere else."""
    files = found.files if isinstance(found, Checkpoint) else ()
    wrong = next(
        (name for name in (found.path, *(one.path for one in files)) if not _is_text(name)), None
    )
    if wrong is None:
        return found
    return Damaged(_shown(found.path), f"the name {_shown(wrong)} is no UTF-8 text; rename it")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    r"""Return a name with its bytes that are no text written out, such as ``\xff``."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _found_in(storage: Storage, folder: str) -> Sequence[Found]:
    try:
        return [open_checkpoint(storage, folder)]
    except NotFoundError:
        return list(_found_below(storage, folder)) if folder else []
    except CorruptDataError as error:
        return [Damaged(folder, str(error))]


def _found_below(storage: Storage, folder: str) -> Iterator[Found]:
    try:
        yield from find_checkpoints(storage, folder)
    except NotFoundError:  # it was removed meanwhile
        return
