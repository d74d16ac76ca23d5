"""Which chunks a store has already, by what is noted beside its checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headrace.checkpoint.manifest import Manifest, read_manifest
from headrace.core.errors import CorruptDataError
from headrace.storage.paths import join
from headrace.storage.port import Storage
from headrace.transfer.chunk import HeldChunk
from headrace.transfer.plan import NOTHING_NOTED

log = logging.getLogger("headrace.transfer")


def noted_at(storage: Storage, folder: str) -> Manifest:
    """Return what is noted of a checkpoint; nothing where there is no manifest, or a damaged one.

    Args:
        storage: The store.
        folder: The checkpoint's, relative to the store's root.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        return read_manifest(storage, folder) or NOTHING_NOTED
    except CorruptDataError as error:
        log.warning("%s", error)
        return NOTHING_NOTED


def held_chunks(storage: Storage, folders: Iterable[str]) -> dict[tuple[str, int], HeldChunk]:
    """Return where a store has the bytes of a digest and a length.

    What is noted may have been changed since: ``copy_chunk`` verifies what it takes.

    Args:
        storage: The store.
        folders: Of its complete checkpoints, the ones to be taken from first.

    Raises:
        StorageError: a manifest cannot be read.
    """
    held: dict[tuple[str, int], HeldChunk] = {}
    for folder in folders:
        for path, noted in noted_at(storage, folder).files.items():
            for chunk in noted.chunks():
                where = HeldChunk(path=join(folder, path), offset=chunk.offset)
                held.setdefault((chunk.digest or "", chunk.length), where)
    return held
