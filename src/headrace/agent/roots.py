"""The directories an agent may read, and the only way it opens a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.core.errors import CallerError, ConfigError, NotFoundError
from headrace.storage.local import LocalStorage


class OutsideRootsError(CallerError):
    """A job names a dataset outside what this agent serves."""


class Roots:
    """Configured directories. Symbolic links are resolved before anything is compared.

    Raises:
        ConfigError: none is given, or one is not a directory.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        if not paths:
            raise ConfigError("an agent needs at least one root; name a directory with --root")
        for path in paths:
            if not Path(path).is_dir():
                raise ConfigError(f"root {path} is not a directory; create it or name another")
        self.paths = tuple(os.path.realpath(path) for path in paths)

    def locate(self, url: str) -> tuple[str, str]:
        """Return (directory, root that holds it) of a dataset's URL.

        Raises:
            OutsideRootsError: it leads outside every root, also by ``..`` or a link. Whether
                anything is there is not told.
            NotFoundError: there is no such directory inside the root.
        """
        real = os.path.realpath(_path_of(url))
        for root in self.paths:
            if real == root or real.startswith(root.rstrip("/") + "/"):
                if not os.path.isdir(real):  # noqa: PTH112 - Path's raises without permission
                    raise NotFoundError(f"no directory at {url} on this agent's host")
                return real, root
        raise OutsideRootsError(
            f"{url} is outside this agent's roots; start the agent with --root for it, "
            "or use the path by which the agent's host knows the dataset"
        )

    def open(self, url: str) -> LocalStorage:
        """Open a dataset; links inside it may lead anywhere in the same root, no further."""
        directory, root = self.locate(url)
        return LocalStorage(directory, links_within=root)


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    if "\0" in unquote(url):
        raise OutsideRootsError(f"{url!r} has a zero byte in it; give an absolute path")
    if parts.scheme == "file":
        return unquote(parts.path)
    if parts.scheme and not url.startswith("/"):
        raise OutsideRootsError(
            f"{url}: this agent serves directories of its host only; give a path or a file: URL"
        )
    if not url.startswith("/"):
        raise OutsideRootsError(
            f"{url} is a relative path, which means nothing on another host; give an absolute one"
        )
    return url
