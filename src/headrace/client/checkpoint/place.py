"""Where a checkpoint is to be written: a folder that need not be there yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import NotFoundError
from headrace.storage.opening import open_storage
from headrace.storage.paths import join
from headrace.storage.port import Storage


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in an open store."""

    storage: Storage
    folder: str
    """Relative to the store's root; empty: the root itself."""

    def path(self, name: str) -> str:
        """Return a file of the folder as the store knows it."""
        return join(self.folder, name)

    @property
    def parent(self) -> str:
        """The folder above, relative to the store's root."""
        return self.folder.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.rpartition("/")[2]


def open_place(url: str) -> Place:
    """Open the nearest folder above ``url`` that is there; only a store's top has none above.

    Raises:
        CallerError: the scheme is not supported.
        StorageError: the store cannot be reached.
    """
    whole = url.rstrip("/") if "://" in url else str(Path(url).expanduser().absolute())
    scheme, _, path = whole.partition("://") if "://" in whole else ("", "", whole)
    start = f"{scheme}://" if scheme else ""
    authority, _, inner = path.partition("/")
    names = inner.split("/") if inner else []
    for count in range(len(names) - 1, 0, -1):
        try:
            above = open_storage(f"{start}{authority}/{'/'.join(names[:count])}")
        except NotFoundError:
            continue
        return Place(above, "/".join(names[count:]))
    return Place(open_storage(f"{start}{authority}/"), "/".join(names))
