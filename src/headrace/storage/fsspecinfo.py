"""What file systems of fsspec say of a file, each by other words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.core.errors import NotFoundError, StorageError
from headrace.storage.port import FileInfo

_VERSIONS = ("ETag", "etag", "e_tag", "md5", "md5Hash", "checksum", "sha256", "commit", "blob_id")
"""What file systems call a mark of the content, best first."""

_MOMENTS = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")
"""What they call the moment of the last change, best first."""


def file_info(info: Mapping[str, Any], path: str) -> FileInfo:
    """Return how the port describes a file.

    The version is a mark of the content where the file system tells one, else the moment of the
    last change.

    Raises:
        NotFoundError: it is a folder.
        StorageError: neither is told, or no size.
    """
    if info["type"] != "file":
        raise NotFoundError(f"{info['name']} is a {info['type']}; name a file")
    modified_s = next((_seconds(info[key]) for key in _MOMENTS if info.get(key)), None)
    mark = next((str(info[key]) for key in _VERSIONS if info.get(key)), None)
    if info.get("size") is None or (mark is None and modified_s is None):
        raise StorageError(
            f"{info['name']}: its file system tells no size, or nothing that changes with the "
            "content; copy the data to a store that does"
        )
    return FileInfo(path, int(info["size"]), mark or repr(modified_s), modified_s)


def _seconds(moment: object) -> float | None:
    """Return a moment as file systems tell it as seconds since 1970."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).timestamp()
        except ValueError:
            return None
    return float(moment) if isinstance(moment, int | float) else None
