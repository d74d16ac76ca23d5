"""Snapshots in Hugging Face's cache: their files are links to those of ``blobs`` beside them.

A model's folder holds ``snapshots/REVISION/…``, where each file is a link such as
``../../blobs/DIGEST``, and ``blobs``. Source: ``huggingface_hub``, "Understand caching".
"""

from __future__ import annotations

from pathlib import Path

from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage


def with_blobs(storage: Storage) -> Storage:
    """Return a store that follows links into the blobs which a snapshot at its root is made of.

    Args:
        storage: Any; what is no snapshot, and no folder of some, is returned as it is. Links
            anywhere else stay refused, also into the rest of the model's folder.
    """
    if isinstance(storage, LocalStorage) and (blobs := _blobs_beside(Path(storage.url))):
        return LocalStorage(storage.url, links_within=blobs)
    return storage


def _blobs_beside(root: Path) -> Path | None:
    """Return the blobs of the snapshot that a folder is or lies in; None: it is none."""
    for folder in (root, *root.parents):
        blobs = folder.with_name("blobs") if folder.name == "snapshots" else None
        if blobs is not None and blobs.is_dir() and not blobs.is_symlink():
            return blobs
    return None
