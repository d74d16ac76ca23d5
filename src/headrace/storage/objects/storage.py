"""The storage port over buckets of S3, Google and Azure.

What it adds to obstore: folders, bounded waits through an outage, ranges of one version, reads
past the end that are errors, and errors that say which variable or whose right is missing.

A bucket has no folders and renames nothing. A folder is there as long as something lies in it;
``rename`` copies inside the store and then deletes, so others may see both names for a moment.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

import obstore

from headrace.core.errors import CallerError, NotFoundError, StorageError
from headrace.storage.objects.address import parse_address
from headrace.storage.objects.asking import Asking, Objects, RequestStatistics
from headrace.storage.objects.config import ObjectsConfig
from headrace.storage.objects.known import Known
from headrace.storage.objects.listing import Listing
from headrace.storage.objects.reading import Reading
from headrace.storage.objects.writing import ObjectWriter
from headrace.storage.paths import require_below
from headrace.storage.port import ByteRange, FileInfo

COPY_BYTES = 5_000_000_000
"""A larger object is copied through this host: S3 copies no larger one by itself [bytes]."""

COPY_CHUNK_BYTES = 64 * 1024 * 1024
"""Read at once of an object that is copied through this host [bytes]."""

DELETED_AT_ONCE = 1000
"""Objects that one request deletes."""


class ObjectStorage:
    """Objects below one folder of a bucket. Thread-safe; not usable in a forked child."""

    def __init__(self, url: str, config: ObjectsConfig | None = None) -> None:
        """Open a folder in which something lies, or a bucket.

        Args:
            url: As ``parse_address`` takes it.
            config: How long and how much; None is what the environment says.

        Raises:
            CallerError: the URL names no bucket.
            ConfigError: what is set in the environment cannot be understood.
            NotFoundError: there is no such bucket, or nothing in such a folder; names the nearest.
            AccessError: these keys may not list it.
            StorageError: the store cannot be reached.
        """
        config = config or ObjectsConfig.from_environment()
        self._address = parse_address(url)
        self._config = config
        self._asking = Asking(self._address, config)
        self._known = Known(config.revalidate_s)
        self._reading = Reading(self._address, self._asking, self._known, config)
        self._listing = Listing(self._address, self._asking, stat=self._reading.stat)
        self._require_folder()

    @property
    def url(self) -> str:
        """The root as a URL."""
        return self._address.url

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, in path order."""
        prefix = prefix.strip("/")
        self._key(prefix)
        if prefix and not self._listing.is_folder(prefix):
            yield self.stat(prefix)
            return
        found = self._listing.below(prefix) if recursive else self._listing.inside(prefix)
        start = len(prefix) + 1 if prefix else 0
        for info in found:
            if hidden or not f"/{info.path[start:]}".count("/."):
                yield info

    def stat(self, path: str) -> FileInfo:
        """Describe one file; its version is the entity tag.

        A file that was read in the last ``revalidate_s`` is described as the answer then did.
        """
        self._key(path)
        with self._hinting(path):
            return self._known.get(path) or self._reading.stat(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return ``length`` bytes from ``offset`` (to the end when None)."""
        if length is not None:
            return self.read_ranges(path, [ByteRange(offset, length)])[0]
        self._key(path)
        with self._hinting(path):
            return self._reading.read_from(path, offset)

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Sequence[bytes]:
        """Return the bytes of each range, in the order asked for; all are of one version."""
        self._key(path)
        with self._hinting(path):
            return self._reading.read_ranges(path, ranges)

    def write(self, path: str, data: bytes) -> FileInfo:
        """Create or replace a file: it is there as a whole once the store has all of it."""
        key, config = self._key(path), self._config

        def put(store: Objects) -> None:
            obstore.put(
                store,
                key,
                data,
                chunk_size=config.upload_bytes,
                max_concurrency=config.uploads_in_flight,
            )

        with self._changing(path):
            self._asking.tell(f"write {self._address.url_of(path)}", put)
        return self._reading.stat(path)

    def create(self, path: str) -> ObjectWriter:
        """Begin a file that is too large for ``write``: its parts are uploaded as they come."""

        def stat() -> FileInfo:
            self._known.forget(path)
            return self._reading.stat(path)

        return ObjectWriter(
            self._key(path),
            self._address.url_of(path),
            asking=self._asking,
            config=self._config,
            stat=stat,
        )

    def rename(self, source: str, target: str) -> None:
        """Copy a file inside the store, which replaces ``target`` at once, then delete it.

        Until then both names are there; who dies in between leaves both.
        """
        old, new = self._key(source), self._key(target)
        with self._hinting(source):
            info = self._reading.stat(source)
        if old == new:
            return
        with self._changing(source, target):
            if info.size > COPY_BYTES:
                self._copy_through_here(info, target)
            else:
                tried = f"rename {self._address.url_of(source)} to {self._address.url_of(target)}"
                self._asking.tell(tried, lambda store: store.copy(old, new))
            self._remove([source])

    def delete(self, path: str) -> None:
        """Remove one file; a file that is already gone is not an error."""
        self._key(path)
        with self._changing(path):
            if self._is_file(path):
                self._remove([path])
            elif self._listing.is_folder(path):
                raise NotFoundError(
                    f"cannot delete {self._address.url_of(path)}: it is a folder; name a file"
                )

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is below it; one that is already gone is not an error.

        A mark of the folder that a console made stays.
        """
        self._key(path)
        folder = posixpath.normpath(path)
        if folder == ".":
            raise CallerError(f"{path!r} is the root {self.url} itself; name a folder below it")
        found = self._listing.below(folder)
        while some := [info.path for info in islice(found, DELETED_AT_ONCE)]:
            with self._changing(*some):
                self._remove(some)
        if self._is_file(folder):
            raise NotFoundError(
                f"cannot delete {self._address.url_of(path)}: it is a file; name a folder"
            )

    def close(self) -> None:
        """Drop what is known."""
        self._known.clear()

    def statistics(self) -> RequestStatistics:
        """Return how many requests were made so far."""
        return self._asking.statistics()

    def _key(self, path: str) -> str:
        """Return the key of a path.

        Raises:
            CallerError: it would lie outside the root.
        """
        require_below(path, self.url)
        return self._address.key(path)

    def _require_folder(self) -> None:
        if self._listing.is_folder("") or not self._address.root:
            return
        if self._is_file(""):
            raise NotFoundError(f"{self.url} is a file; name the folder that holds it")
        nearest = self._listing.nearest(self._address.root)
        raise NotFoundError(f"nothing lies in {self.url}{nearest}")

    def _is_file(self, path: str) -> bool:
        try:
            self._reading.stat(path)
        except NotFoundError:
            return False
        return True

    def _remove(self, paths: Sequence[str]) -> None:
        keys = [self._key(path) for path in paths]
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        tried = f"delete {self._address.url_of(paths[0])}{more}"
        with suppress(NotFoundError):  # some stores tell, some do not
            self._asking.tell(tried, lambda store: obstore.delete(store, keys))

    def _copy_through_here(self, info: FileInfo, target: str) -> None:
        with self.create(target) as writer:
            for start in range(0, info.size, COPY_CHUNK_BYTES):
                length = min(COPY_CHUNK_BYTES, info.size - start)
                writer.write(self._reading.read_ranges(info.path, [ByteRange(start, length)])[0])
            if self._reading.stat(info.path) != info:
                raise StorageError(
                    f"cannot rename {self._address.url_of(info.path)}: it was replaced while it "
                    "was copied; rename it again"
                )
            writer.commit()

    @contextmanager
    def _changing(self, *paths: str) -> Iterator[None]:
        """Forget what is known of files that a block changes, once it did or failed."""
        try:
            yield
        finally:
            self._known.forget(*paths)

    @contextmanager
    def _hinting(self, path: str) -> Iterator[None]:
        """Add to an error that something is not there what may have been meant."""
        try:
            yield
        except NotFoundError as error:
            self._known.forget(path)
            nearest = self._listing.nearest(self._address.key(path))
            raise NotFoundError(f"{error}{nearest}") from error


def require_configured(url: str) -> str:
    """Check that what is set in the environment can be understood; the store is not asked.

    Returns:
        The one form of the URL.

    Raises:
        CallerError: the URL names no bucket.
        ConfigError: it cannot be understood.
    """
    address = parse_address(url)
    Asking(address, ObjectsConfig.from_environment())
    return address.url
