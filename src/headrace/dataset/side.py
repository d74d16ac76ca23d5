"""Files derived from the dataset's own that make them quicker to read by range.

They lie in the folder of the index, one per compressed text file. Each says for which
size and version of its file it was made; one that does not fit is as good as none, and
what it holds is then worked out again in memory.
"""

from __future__ import annotations

import struct

from headrace.core.digest import name_digest
from headrace.core.errors import NotFoundError
from headrace.storage.port import FileInfo, Storage

DEFAULT_FOLDER = ".headrace"

_HEAD = struct.Struct("<8sQ32s")
_MAGIC = b"HRSIDE01"


class SideFiles:
    """The folder of derived files. Thread-safe if its storage is."""

    def __init__(self, storage: Storage, folder: str = DEFAULT_FOLDER) -> None:
        self._storage = storage
        self._folder = folder

    def get(self, file: FileInfo) -> bytes | None:
        """Return what was put for exactly this version of the file, or None."""
        try:
            data = self._storage.read(self._path(file))
        except NotFoundError:
            return None
        return data[_HEAD.size :] if data[: _HEAD.size] == _head(file) else None

    def put(self, file: FileInfo, data: bytes) -> None:
        """Keep ``data`` for this version of the file, in place of what was kept before."""
        self._storage.write(self._path(file), _head(file) + data)

    def _path(self, file: FileInfo) -> str:
        return f"{self._folder}/{name_digest(file.path.encode())[:20]}.side"


def _head(file: FileInfo) -> bytes:
    return _HEAD.pack(_MAGIC, file.size, name_digest(file.version.encode()).encode())
