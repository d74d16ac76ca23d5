"""The root that checkpoints are copied to: apart from the source, and made where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from headrace.core.errors import CallerError, NotFoundError
from headrace.storage.address import StoreAddress
from headrace.storage.port import Storage

OpenStore = Callable[[str], Storage]


def opened_or_made(url: str, source: str, open_store: OpenStore) -> Storage:
    """Open a destination; where only it itself is missing, make it.

    Args:
        url: The destination's, as written.
        source: The source's, as its store tells it.
        open_store: Opens a folder that is there.

    Raises:
        CallerError: it is missing, and would lie in the source.
        NotFoundError: the folder that it is to be in is not there either.
    """
    try:
        return open_store(url)
    except NotFoundError:
        with folder_above(url, source, open_store) as (above, name):
            path = f"{name}/.headrace/begun"
            above.write(path, b"")
            made = open_store(url)  # in a bucket a folder is only there while something lies in it
            above.delete(path)
            return made


@contextmanager
def folder_above(url: str, source: str, open_store: OpenStore) -> Iterator[tuple[Storage, str]]:
    """Open the folder that a missing destination is to be in; also return the missing name.

    Raises:
        CallerError: the destination would lie in the source.
        NotFoundError: that folder is missing as well.
    """
    parent, _, name = url.rstrip("/").rpartition("/")
    if not name:
        raise NotFoundError(f"no directory at {url}; check the spelling")
    with closing(open_store(parent or "/")) as above:
        require_apart(source, f"{above.url.rstrip('/')}/{name}")
        yield above, name


def require_apart(source: str, destination: str) -> None:
    """Refuse roots of which one holds the other.

    Copies would be taken for checkpoints of the source, and retention would remove those.

    Raises:
        CallerError: one of them is the other, or lies in it.
    """
    for outer, inner in ((source, destination), (destination, source)):
        if _holds(outer, inner):
            raise CallerError(
                f"{inner} is or lies in {outer}, and copies go to a root of their own; name "
                "another folder"
            )


def _holds(outer: str, inner: str) -> bool:
    if "://" in outer and "://" in inner:
        return StoreAddress.parse(outer).holds(StoreAddress.parse(inner))
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")
