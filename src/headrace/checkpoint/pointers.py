"""Pointers: files beside checkpoints that name the newest one, for layouts without a marker.

All ranks write their files, wait for each other, and then one moves the pointer. So a checkpoint
that the pointer names is complete, and so is what was there before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from headrace.checkpoint.layout import Checkpoint, Folder, Pointer
from headrace.checkpoint.remembered import Remembered
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

MOST_POINTER_BYTES = 4096
"""It holds one name or number; a longer one is damaged [bytes]."""

_NAMES = Remembered[str](4096)


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
    return set(named_by(storage, storage.list(folder, hidden=False, recursive=False)).values())


def named_by(storage: Storage, files: Iterable[FileInfo]) -> dict[str, str]:
    """Return what short texts hold, without spaces and folders before it, by the files' paths.

    A version of a file that was read is not read again. Files that are longer, empty, no text or
    not there any more are left out.

    Args:
        storage: The store.
        files: As they were listed.

    Raises:
        StorageError: one cannot be read.
    """
    short = [info for info in files if 0 < info.size <= MOST_POINTER_BYTES]
    names = {}
    for info in short:
        with suppress(NotFoundError):  # removed since it was listed
            names[info.path] = _NAMES.of(storage, info, partial(_name_in, storage, info.path))
    return {path: name for path, name in names.items() if name}


def _name_in(storage: Storage, path: str) -> str:
    try:  # whole, for it may have grown since it was listed, and part of a name is another's
        text = storage.read(path).decode()
    except UnicodeDecodeError:
        return ""
    return text.strip().rstrip("/").rpartition("/")[2]


def _beside(folder: Folder, name: str) -> str:
    above = folder.path.rpartition("/")[0]
    return join(above, name)
