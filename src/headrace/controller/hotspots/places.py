"""One name for each file, whoever speaks of it and by whatever URL."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.policy.hotspot.events import StoredFile
from headrace.storage.paths import join
from headrace.storage.port import Storage


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a store."""

    store: str
    """URL of the store's root."""

    folder: str
    """Relative to the root."""

    def file(self, path: str) -> StoredFile:
        """Return the name of a file of this folder."""
        return StoredFile(self.store, join(self.folder, path))


def place_of(storage: Storage) -> Place:
    """Return where an open storage is."""
    scheme, separator, rest = storage.url.rpartition("://")
    authority, _, folder = rest.partition("/")
    return Place(store=f"{scheme}{separator}{authority}/", folder=folder.strip("/"))
