"""Pointers: files beside checkpoints that name the newest one, for layouts without a marker.

All ranks write their files, wait for each other, and then one moves the pointer. So a checkpoint
that the pointer names is complete, and so is what was there before it.
"""

from __future__ import annotations

from contextlib import suppress

from headrace.checkpoint.layout import Checkpoint, Folder, Pointer
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.storage.paths import join
from headrace.storage.port import Storage

MOST_POINTER_BYTES = 4096
"""It holds one name or number; a longer one is damaged [bytes]."""


def pointer_beside(folder: Folder, name: str, content: str) -> Pointer:
    """Return the pointer that is to name the checkpoint in a folder.

    Args:
        folder: The checkpoint's.
        name: The pointer's.
        content: What it holds then.
    """
    return Pointer(path=_beside(folder, name), content=content.encode())


def read_pointer(storage: Storage, folder: Folder, name: str) -> str | None:
    """Return what the pointer beside a folder holds, without spaces; None: there is none.

    Raises:
        CorruptDataError: it is no short text.
        StorageError: it cannot be read.
    """
    info = next((info for info in folder.beside if info.path == name), None)
    if info is None:
        return None
    path = _beside(folder, name)
    if info.size > MOST_POINTER_BYTES:
        raise CorruptDataError(f"{path} has {info.size} bytes, it should hold one name")
    try:
        return storage.read(path, 0, info.size).decode().strip()
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"{path} is no text, it should hold one name") from error


def is_pointed_to(storage: Storage, checkpoint: Checkpoint) -> bool:
    """Tell whether the pointer beside a checkpoint names it: who starts anew would read it.

    Args:
        storage: Where the checkpoint is, or its copy.
        checkpoint: Its path is relative to the store's root.

    Raises:
        StorageError: the pointer cannot be read.
    """
    pointer = checkpoint.pointer
    if pointer is None:
        return False
    try:
        return storage.read(pointer.path).strip() == pointer.content.strip()
    except NotFoundError:
        return False


def named_beside(storage: Storage, folder: str) -> set[str]:
    """Return what short files directly in a folder hold, without folders before it.

    Some are names of checkpoints, whatever the files are called: ``CheckpointWriter`` lets its
    user choose.

    Args:
        storage: The store.
        folder: Above checkpoints, relative to the store's root.

    Raises:
        StorageError: one cannot be read.
    """
    names = set()
    for info in storage.list(folder, hidden=False, recursive=False):
        if 0 < info.size <= MOST_POINTER_BYTES:
            with suppress(NotFoundError, UnicodeDecodeError):  # removed meanwhile, or no text
                text = storage.read(info.path, 0, info.size).decode()
                names.add(text.strip().rstrip("/").rpartition("/")[2])
    return names


def _beside(folder: Folder, name: str) -> str:
    above = folder.path.rpartition("/")[0]
    return join(above, name)
