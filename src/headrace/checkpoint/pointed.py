"""Where a checkpoint is wanted, and the name of a pointer beside it is given (``runs/latest``)."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import quote, unquote

from headrace.checkpoint.iterations import POINTER as MEGATRON_POINTER
from headrace.checkpoint.iterations import folder_called
from headrace.checkpoint.pointers import named_by
from headrace.core.errors import NotFoundError
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage


def followed(url: str) -> str:
    """Return the URL of a folder: the one given, or the one that a pointer there names now.

    Raises:
        CallerError: the scheme is not supported.
        NotFoundError: there is neither.
        StorageError: the store cannot be reached.
    """
    try:
        open_storage(url).close()
    except NotFoundError:
        target = _pointed_to(url)
        if target is None:
            raise
        return target
    return url


def open_folder(url: str) -> Storage:
    """Open a checkpoint's folder as ``open_storage`` does. A pointer is not followed.

    Several who follow one, each for itself, may come to different checkpoints.

    Raises:
        NotFoundError: there is no such folder; of a pointer it says what to give instead.
    """
    try:
        return open_storage(url)
    except NotFoundError as error:
        target = _pointed_to(url)
        if target is None:
            raise
        raise NotFoundError(
            f"{url} is a pointer, which names {target} now; give that, as a pointer may move "
            "meanwhile"
        ) from error


def _pointed_to(url: str) -> str | None:
    """Return the URL of the folder beside it that a pointer names; None: there is no pointer."""
    whole = url.rstrip("/")
    given = whole.rpartition("/")[2]
    is_url = "://" in whole or whole.startswith("file:")
    try:
        with closing(open_storage(whole.removesuffix(given) or ".")) as above:
            name = _named_by(above, unquote(given) if is_url else given)
            if name in ("", ".", ".."):
                return None
            target = f"{above.url.rstrip('/')}/{quote(name) if '://' in above.url else name}"
        open_storage(target).close()
    except NotFoundError:
        return None
    return target


def _named_by(above: Storage, pointer: str) -> str:
    name = named_by(above, [above.stat(pointer)]).get(pointer, "")
    return folder_called(name) if pointer == MEGATRON_POINTER else name
