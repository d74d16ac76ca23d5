"""Joins files of one folder in HDFS by moving their blocks: no bytes are copied."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.errors import CallerError, NotFoundError, StorageError
from headrace.storage.hdfs.namenode import NameNodes
from headrace.storage.hdfs.webhdfs import WebHdfs
from headrace.storage.paths import folder_of_parts

if TYPE_CHECKING:
    import hdfs_native

LONGEST_NAMES = 16_384
"""Names that are joined by one request; a NameNode takes a URL of 64 KiB [characters]."""


def join(namenodes: NameNodes, web: WebHdfs, parts: Sequence[str]) -> str:
    """Make one file of parts, in their order, and return its path: that of one of them.

    Files that are empty cannot be joined; they are deleted. What was joined when a call fails
    is in the first part that is not empty, and these are gone.

    Args:
        namenodes: To be asked about the parts.
        web: Joins.
        parts: Absolute paths in one folder.

    Raises:
        CallerError: no parts, or in several folders, or with names that cannot be joined.
        NotFoundError: a part is not there.
        StorageError: refused; or the joined file is not as long as its parts together were.
    """
    folder = _folder_of(parts)
    lengths = _lengths(namenodes, folder, parts)
    filled = [part for part in parts if lengths[part]]
    whole = filled[0] if filled else parts[0]
    for batch in _batches(filled[1:]):
        web.concat(whole, batch)
    tried = f"join {len(parts)} files into {whole}"
    length = namenodes.ask(tried, lambda client: client.get_file_info(whole)).length
    if length != sum(lengths.values()):
        raise StorageError(
            f"{whole} has {length} bytes, but its parts had {sum(lengths.values())}: another "
            "writer changes them; begin them anew, in a folder of their own"
        )
    for part in lengths.keys() - {*filled, whole}:
        namenodes.tell(tried, partial(_delete, part))
    return whole


def _delete(path: str, client: hdfs_native.Client) -> None:
    client.delete(path)


def _folder_of(parts: Sequence[str]) -> str:
    if any("," in part for part in parts):
        raise CallerError("files with commas in their names cannot be joined; rename them")
    return folder_of_parts(parts)


def _lengths(namenodes: NameNodes, folder: str, parts: Sequence[str]) -> dict[str, int]:
    tried = f"list {folder or '/'}"
    statuses = namenodes.ask(tried, lambda client: list(client.list_status(folder or "/")))
    known = {posixpath.join(folder, posixpath.basename(one.path)): one for one in statuses}
    return {part: _length(known, part) for part in parts}


def _length(known: Mapping[str, hdfs_native.FileStatus], part: str) -> int:
    if part not in known or known[part].isdir:
        raise NotFoundError(f"cannot join {part}: no such file; it may have been joined before")
    return known[part].length


def _batches(parts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for part in parts:
        if batch and size + len(part) > LONGEST_NAMES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += len(part)
    if batch:
        yield batch
