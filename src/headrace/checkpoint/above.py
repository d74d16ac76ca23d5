"""Opens the folder above a checkpoint: what points to it and what pins it lies there."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import unquote

from headrace.checkpoint.pointed import open_folder
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage


def open_above(url: str) -> tuple[Storage, str]:
    """Return the open store whose root is the folder above, and the folder's name in it.

    Links in a local path are followed first, so that all find the same folder above. Where there
    is nothing above, the store's root is returned, and an empty name.

    Args:
        url: Path or URL of a folder that is there.

    Raises:
        CallerError: the scheme is not supported.
        NotFoundError: there is no such folder; of a pointer it says what it names.
        StorageError: the store cannot be reached.
    """
    with closing(open_folder(url)) as given:
        whole = given.url.rstrip("/")
        above, _, name = whole.rpartition("/")
        if not name or above.endswith("/"):
            return open_storage(given.url), ""
    return open_storage(above or "/"), unquote(name) if "://" in whole else name
