"""The directories and remote stores an agent may read, and the only way it opens a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.core.errors import CallerError, ConfigError, NotFoundError
from headrace.storage.address import StoreAddress
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage, require_openable
from headrace.storage.port import Storage


class OutsideRootsError(CallerError):
    """A job names a dataset outside what this agent serves."""


@dataclass(frozen=True, slots=True)
class Located:
    """A dataset inside a root, as workers open it."""

    url: str
    """A directory, links resolved, or a store's URL in its one form."""

    links_within: str | None
    """Directory that symbolic links may lead into; None: a remote store."""


class Roots:
    """Configured directories and stores. Nothing outside them is opened.

    Symbolic links of directories are resolved before anything is compared. URLs are compared
    as they are written, without asking the store: an agent serves ``hdfs://name/data`` to
    jobs that use the same name for the same store. ``hdfs:///data`` is also the same folder of
    the NameNode that is configured.

    Args:
        directories: Directories of this host.
        storages: URLs of remote stores.

    Raises:
        ConfigError: neither is given, one is not a directory, or one is not a store's URL.
        CallerError: a store cannot be opened with what is installed and configured here.
    """

    def __init__(self, directories: Sequence[str | Path], storages: Sequence[str] = ()) -> None:
        if not directories and not storages:
            raise ConfigError(
                "an agent needs at least one root; name a directory with --root or a store with "
                "--storage"
            )
        for path in directories:
            if not Path(path).is_dir():
                raise ConfigError(f"root {path} is not a directory; create it or name another")
        self._directories = tuple(os.path.realpath(path) for path in directories)
        self._storages = tuple(root for url in storages for root in _storage_roots(url))

    def locate(self, url: str) -> Located:
        """Return how a dataset is opened.

        Raises:
            OutsideRootsError: it leads outside every root, also by ``..`` or a link. Whether
                anything is there is not told.
            NotFoundError: there is no such directory inside a root. Stores are not asked.
        """
        if "\0" in unquote(url):
            raise OutsideRootsError(f"{url!r} has a zero byte in it; give an absolute path")
        if url.startswith("/"):
            return self._locate_directory(url, url)
        if url.startswith("file:"):
            return self._locate_directory(url, unquote(urlsplit(url).path))
        if "://" in url:
            return self._locate_in_store(url)
        raise OutsideRootsError(
            f"{url} is a relative path, which means nothing on another host; give an absolute one"
        )

    def _locate_directory(self, url: str, path: str) -> Located:
        real = os.path.realpath(path)
        for root in self._directories:
            if real == root or real.startswith(root.rstrip("/") + "/"):
                if not os.path.isdir(real):  # noqa: PTH112 - Path's raises without permission
                    raise NotFoundError(f"no directory at {url} on this agent's host")
                return Located(real, root)
        raise OutsideRootsError(
            f"{url} is outside this agent's roots; start the agent with --root for it, "
            "or use the path by which the agent's host knows the dataset"
        )

    def _locate_in_store(self, url: str) -> Located:
        try:
            wanted = StoreAddress.parse(url)
        except CallerError as error:
            raise OutsideRootsError(str(error)) from error
        if not any(root.holds(wanted) for root in self._storages):
            raise OutsideRootsError(
                f"{url} is outside this agent's stores; start the agent with --storage for it, "
                "or name the store as the agent does"
            )
        return Located(wanted.url, None)


def open_located(place: Located) -> Storage:
    """Open a dataset that ``Roots`` located; what its links lead to is checked at each read."""
    if place.links_within is None:
        return open_storage(place.url)
    return LocalStorage(place.url, links_within=place.links_within)


def _storage_roots(url: str) -> tuple[StoreAddress, ...]:
    try:
        address = StoreAddress.parse(url)
    except CallerError as error:
        raise ConfigError(f"--storage: {error}") from error
    if address.scheme == "file":
        raise ConfigError(f"--storage {url} is a directory of this host; name it with --root")
    own = urlsplit(require_openable(url)).netloc
    return (address,) if address.authority else (address, replace(address, authority=own))
