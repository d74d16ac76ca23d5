"""Puts a file together from its staged chunks, within the destination."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.core.errors import CallerError, NotFoundError, StaleError, StorageError
from headrace.storage.port import Assembles, Storage
from headrace.transfer.chunk import PIECE_BYTES

log = logging.getLogger("headrace.transfer")


def assemble(storage: Storage, path: str, parts: Sequence[str], size: int) -> None:
    """Make one file of several, which are gone afterwards; may be repeated after a failure.

    A store that joins files by moving their blocks is asked to; where it cannot (HDFS without
    WebHDFS), their bytes are copied.

    Args:
        storage: Where they are.
        path: The file.
        parts: In order; those that are still there, all in one folder.
        size: That the file must have [bytes].

    Raises:
        StaleError: the parts are not the whole file; it is not there then.
        StorageError: the store failed.
    """
    if not isinstance(storage, Assembles):
        _copy(storage, path, parts, size)
        return
    try:
        found = storage.assemble(path, parts).size
    except (StorageError, CallerError) as error:
        log.warning("%s; the chunks are copied instead", error)
        _copy(storage, path, [part for part in parts if _is_there(storage, part)], size)
        return
    _require_size(storage, path, found, size)


def _copy(storage: Storage, path: str, parts: Sequence[str], size: int) -> None:
    with storage.create(path) as writer:
        for part in parts:
            length = storage.stat(part).size
            for offset in range(0, length, PIECE_BYTES):
                writer.write(storage.read(part, offset, min(PIECE_BYTES, length - offset)))
        found = writer.commit().size
    _require_size(storage, path, found, size)
    for part in parts:
        storage.delete(part)


def _require_size(storage: Storage, path: str, found: int, size: int) -> None:
    if found != size:
        storage.delete(path)
        raise StaleError(
            f"{storage.url}/{path} came to {found} bytes of {size} when its chunks were put "
            "together; something else changed them: copy the file again"
        )


def _is_there(storage: Storage, path: str) -> bool:
    try:
        storage.stat(path)
    except NotFoundError:  # its bytes were joined to those of another
        return False
    return True
