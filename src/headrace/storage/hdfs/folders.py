"""Lists folders of HDFS, and finds what a mistyped path probably meant."""

from __future__ import annotations

import itertools
import posixpath
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.errors import HeadraceError, NotFoundError
from headrace.storage.hdfs.namenode import NameNodes

if TYPE_CHECKING:
    import hdfs_native

SIBLINGS = 10_000
"""Names in a folder that are compared with a mistyped one."""


def sorted_entries(namenodes: NameNodes, folder: str) -> list[tuple[str, hdfs_native.FileStatus]]:
    """Return name and description of what lies in a folder, so that paths come in order."""
    statuses = namenodes.ask(f"list {folder}", lambda client: list(client.list_status(folder)))
    entries = [(posixpath.basename(status.path), status) for status in statuses]
    return sorted(entries, key=lambda entry: entry[0] + "/" * entry[1].isdir)


def did_you_mean(namenodes: NameNodes, path: str) -> str:
    """Return a clause for the end of an error message, with its punctuation."""
    missing = path
    while missing not in ("", "/"):
        parent, name = posixpath.split(missing)
        try:
            names = namenodes.tell(f"list {parent}", partial(_names, folder=parent))
        except NotFoundError:
            missing = parent
            continue
        except HeadraceError:  # the hint is not worth another error
            return _SPELLING
        if name in names:  # it is there, and is not what was asked for
            return ""
        close = get_close_matches(name, names, n=1, cutoff=0.6)
        return f"; did you mean {posixpath.join(parent, close[0])}?" if close else _SPELLING
    return _SPELLING


_SPELLING = "; check the spelling"


def _names(client: hdfs_native.Client, folder: str) -> list[str]:
    entries = itertools.islice(client.list_status(folder), SIBLINGS)
    return [posixpath.basename(status.path) for status in entries]
