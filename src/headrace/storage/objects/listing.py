"""Lists what lies below a folder of an object store, in path order.

There are no folders in such a store, only keys with slashes in them. What a console makes as a
folder is an empty object whose key ends in a slash: obstore shows it without the slash, so an
empty object is listed only if it can be described by the name without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from operator import attrgetter
from typing import TYPE_CHECKING

import obstore

from headrace.core.errors import HeadraceError, NotFoundError, StorageError
from headrace.storage.objects.address import ObjectsAddress
from headrace.storage.objects.asking import Asking, Objects
from headrace.storage.objects.reading import file_info
from headrace.storage.port import FileInfo

if TYPE_CHECKING:
    from obstore import ListStream, ObjectMeta

PAGE = 1000
"""Objects that one answer tells of: as many as S3 allows."""


class Listing:
    """Lists one bucket. Thread-safe."""

    def __init__(
        self,
        address: ObjectsAddress,
        asking: Asking,
        *,
        stat: Callable[[str], FileInfo],
    ) -> None:
        """List through a store's requests.

        Args:
            address: The bucket, and the folder in it that is the root.
            asking: Where requests are made.
            stat: Describes one object by its path.
        """
        self._address = address
        self._asking = asking
        self._stat = stat

    def is_folder(self, path: str) -> bool:
        """Tell whether anything lies below a path, a console's mark of a folder included."""
        key, tried = self._named(path)
        return bool(
            self._asking.ask(tried, lambda store: next(obstore.list(store, key, chunk_size=1), ()))
        )

    def below(self, folder: str) -> Iterator[FileInfo]:
        """Yield all files below a folder, in path order.

        Where the store is not known to list in order, all are held in memory until sorted.

        Raises: as ``Asking.ask``; StorageError also: a store that is known to did not.
        """
        if self._asking.lists_in_order:
            return self._streamed(folder)
        return iter(sorted(self._whole(folder), key=_path))

    def inside(self, folder: str) -> list[FileInfo]:
        """Return the files that lie directly in a folder, in path order; one request a page.

        Raises: as ``Asking.ask``.
        """
        key, tried = self._named(folder)
        answer = self._asking.ask(tried, lambda store: obstore.list_with_delimiter(store, key))
        found = (self._described(meta, folder) for meta in answer["objects"])
        return sorted((info for info in found if info is not None), key=_path)

    def nearest(self, key: str) -> str:
        """Return a clause for the end of a message that says which name may have been meant.

        One page of those beside it is looked at, from those on that begin with the same letter.
        """
        folder, _, name = key.rpartition("/")
        start = f"{folder}/" if folder else ""
        first = start + name[:1]

        def beside(store: Objects) -> Sequence[ObjectMeta]:
            return next(obstore.list(store, folder or None, offset=first, chunk_size=PAGE), ())

        try:
            page = self._asking.ask(f"list {self._address.url_of_key(folder)}", beside)
        except HeadraceError:  # the hint is not worth another error
            page = ()
        names = {meta["path"][len(start) :].partition("/")[0] for meta in page} - {name}
        close = get_close_matches(name, names, n=1, cutoff=0.6)
        if not close:
            return "; check the spelling"
        return f"; did you mean {self._address.url_of_key(start + close[0])}?"

    def _named(self, folder: str) -> tuple[str | None, str]:
        """Return a folder's key as obstore takes it, and what to call listing it."""
        return self._address.key(folder) or None, f"list {self._address.url_of(folder)}"

    def _whole(self, folder: str) -> list[FileInfo]:
        """Return all files below a folder; a listing that breaks off is begun anew."""
        key, tried = self._named(folder)

        def listed(store: Objects) -> list[FileInfo]:
            pages = obstore.list(store, key, chunk_size=PAGE)
            found = (self._described(meta, folder) for page in pages for meta in page)
            return [info for info in found if info is not None]

        return self._asking.ask(tried, listed)

    def _streamed(self, folder: str) -> Iterator[FileInfo]:
        last = ""
        for meta in self._metas(folder):
            info = self._described(meta, folder)
            if info is None:
                continue
            if info.path < last:
                raise StorageError(
                    f"{self._address.url} lists {info.path} after {last}, which no bucket of its "
                    "kind should; name its endpoint in AWS_ENDPOINT_URL, and it is sorted here"
                )
            last = info.path
            yield info

    def _metas(self, folder: str) -> Iterator[ObjectMeta]:
        """Yield what the store tells; a page that fails is asked for anew, by the last key."""
        key, tried = self._named(folder)
        pages: ListStream[Sequence[ObjectMeta]] | None = None
        last: str | None = None

        def next_page(store: Objects) -> Sequence[ObjectMeta]:
            nonlocal pages
            pages = pages or obstore.list(store, key, offset=last, chunk_size=PAGE)
            try:
                return next(pages, ())
            except BaseException:
                pages = None
                raise

        while page := self._asking.ask(tried, next_page):
            last = page[-1]["path"]
            yield from page

    def _described(self, meta: ObjectMeta, folder: str) -> FileInfo | None:
        """Return what the port says of an object; None: it is the mark of a folder."""
        path = self._address.path(meta["path"])
        if meta["size"]:
            return file_info(meta, path)
        if path in ("", folder):
            return None
        try:
            return self._stat(path)
        except NotFoundError:
            return None


_path = attrgetter("path")
