"""Snapshots in Hugging Face's cache: their files are links to those of ``blobs`` beside them.

The folder of a model or a dataset holds ``snapshots/REVISION/…``, where each file is a link such as
``../../blobs/DIGEST``, and ``blobs``. Source: ``huggingface_hub``, "Understand caching".
"""

from __future__ import annotations

from pathlib import Path

from headrace.storage.local import LocalStorage


def open_local(path: str) -> LocalStorage:
    """Open a directory; of a snapshot, links into the blobs that it is made of are followed.

    Links anywhere else out of the directory stay refused, also into the rest of the folder that
    the snapshot lies in.

    Raises:
        NotFoundError: there is no such directory; names the nearest one that is there.
    """
    storage = LocalStorage(path)
    blobs = _blobs_beside(Path(storage.url))
    return storage if blobs is None else LocalStorage(path, links_within=blobs)


def _blobs_beside(root: Path) -> Path | None:
    """Return the blobs of the snapshot that a folder is or lies in; None: it is none."""
    for folder in (root, *root.parents):
        blobs = folder.with_name("blobs") if folder.name == "snapshots" else None
        if blobs is not None and blobs.is_dir() and not blobs.is_symlink():
            return blobs
    return None
