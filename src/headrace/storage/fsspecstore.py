"""The storage port over what fsspec knows: SFTP, SMB, FTP, Hugging Face's hub and many more.

``fsspec+SCHEME://HOST/PATH`` is opened as fsspec opens ``SCHEME://HOST/PATH``; where headrace has
no backend of its own, ``SCHEME://`` will do. What else a file system is to be told, keys above
all, fsspec takes from its own configuration: files in ``~/.config/fsspec``, or variables such as
``FSSPEC_SFTP_PASSWORD``. ``fsspec`` is imported when the first store is opened, never before.

How good it is depends on the file system: whether a rename is atomic, what tells versions apart,
and whether several ranges come at once.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO, TypeVar, cast

import fsspec
from fsspec.core import url_to_fs
from fsspec.spec import AbstractFileSystem

from headrace.core.errors import (
    AccessError,
    CallerError,
    ConfigError,
    DeadlineError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.storage.address import StoreAddress
from headrace.storage.calls import calls_for
from headrace.storage.fsspecconfig import FsspecConfig
from headrace.storage.fsspecinfo import file_info
from headrace.storage.fsspecwriting import FsspecWriter
from headrace.storage.paths import hidden_part, require_below
from headrace.storage.port import ByteRange, FileInfo
from headrace.storage.ranges import deal, merge

T = TypeVar("T")

PREFIX = "fsspec+"

GAP_BYTES = 64 * 1024
"""Bytes that are rather read than left out: about what a round trip costs [bytes]."""

SLOWEST_BYTES_PER_S = 1e6
"""A call is given time for this rate, besides its timeout."""


class FsspecStorage:
    """Files below one folder of a file system of fsspec. Thread-safe as far as that is."""

    def __init__(self, url: str, config: FsspecConfig | None = None) -> None:
        """Open an existing folder.

        Args:
            url: ``fsspec+SCHEME://HOST/PATH``, or without ``fsspec+``.
            config: How long to wait; None is what the environment says.

        Raises:
            CallerError: it is no URL, or has a secret in it.
            ConfigError: a package that fsspec needs for it is missing, or its configuration is
                wrong.
            NotFoundError: there is no such folder.
            StorageError: the file system cannot be reached.
        """
        self._config = config or FsspecConfig.from_environment()
        self._address = StoreAddress.parse(url)
        self._fs, root = self._open()
        self._root = root.rstrip("/")
        if not self._do("open", "", lambda: self._fs.isdir(self._root or "/")):
            raise NotFoundError(f"no folder at {self.url}; check the spelling")

    @property
    def url(self) -> str:
        """The root as a URL, without a slash at its end."""
        return self._address.url.removesuffix("/")

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, in path order; all are held in memory."""
        prefix = prefix.strip("/")
        if prefix and self._kind(prefix) != "directory":
            yield self.stat(prefix)
            return
        start = len(prefix) + 1 if prefix else 0
        for info in sorted(self._below(prefix, recursive=recursive), key=lambda info: info.path):
            if hidden or "/." not in f"/{info.path[start:]}":
                yield info

    def stat(self, path: str) -> FileInfo:
        """Describe one file, by what the file system tells of its content or its last change."""
        return file_info(self._info(path), path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return ``length`` bytes from ``offset`` (to the end when None)."""
        if length is None:
            length = max(0, self.stat(path).size - offset)
        return self.read_ranges(path, [ByteRange(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Sequence[bytes]:
        """Return the bytes of each range, in the order asked for; near ones are read as one."""
        spans = merge(ranges, GAP_BYTES)
        if not spans:
            self.stat(path)
            return [b""] * len(ranges)
        full = self._full(path)
        call = partial(
            self._fs.cat_ranges,
            [full] * len(spans),
            [span.offset for span in spans],
            [span.end for span in spans],
            on_error="raise",
        )
        nbytes = sum(span.end - span.offset for span in spans)
        data = self._do("read", path, call, nbytes)
        for span, content in zip(spans, data, strict=True):
            if len(content) != span.end - span.offset:
                raise StorageError(
                    f"{full} ends at byte {self.stat(path).size}, but bytes up to {span.end} were "
                    "asked for; it was truncated or replaced: restore it, or index again"
                )
        return deal(spans, data, ranges)

    def write(self, path: str, data: bytes) -> FileInfo:
        """Create or replace a file: written aside, then renamed over the old one."""
        with self.create(path) as writer:
            writer.write(data)
            return writer.commit()

    def create(self, path: str) -> FsspecWriter:
        """Begin a file that is too large for ``write``, aside; folders are made."""
        full = self._full(path)
        aside = hidden_part(full)

        def begin() -> BinaryIO:
            self._fs.makedirs(posixpath.dirname(full), exist_ok=True)
            return cast(BinaryIO, self._fs.open(aside, "wb"))

        def publish() -> FileInfo:
            self._do("write", path, lambda: self._move(aside, full))
            return self.stat(path)

        return FsspecWriter(
            self._do("write", path, begin),
            run=lambda call, nbytes: self._do("write", path, call, nbytes),
            publish=publish,
            discard=lambda: self._fs.rm_file(aside),
        )

    def rename(self, source: str, target: str) -> None:
        """Move a file over ``target``, as atomically as the file system moves one."""
        self.stat(source)
        old, new = self._full(source), self._full(target)

        def move() -> None:
            self._fs.makedirs(posixpath.dirname(new), exist_ok=True)
            self._move(old, new)

        self._do("rename", source, move)

    def delete(self, path: str) -> None:
        """Remove one file; a file that is already gone is not an error."""
        if self._kind(path) is None:
            return
        self.stat(path)
        with suppress(NotFoundError):
            self._do("delete", path, lambda: self._fs.rm_file(self._full(path)))

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is below it; one that is already gone is not an error."""
        full = self._full(path)
        if posixpath.normpath(path or ".") == ".":
            raise CallerError(f"{path!r} is the root {self.url} itself; name a folder below it")
        kind = self._kind(path)
        if kind == "directory":
            self._do("delete", path, lambda: self._remove_all(full))
        elif kind is not None:
            raise NotFoundError(f"cannot delete {full}: it is a {kind}; name a folder")

    def close(self) -> None:
        """Nothing is held: fsspec keeps its connections for whoever opens the same next."""

    def _open(self) -> tuple[AbstractFileSystem, str]:
        address = self._address
        protocol = address.scheme.removeprefix(PREFIX)
        whole = f"{protocol}://{address.authority}/{'/'.join(address.folders)}"
        try:
            return cast("tuple[AbstractFileSystem, str]", self._run(lambda: url_to_fs(whole), 0))
        except (ImportError, ValueError, TypeError) as error:
            raise ConfigError(
                f"cannot open {self.url}: fsspec says {error}; install what it asks for, or look "
                "at its configuration"
            ) from error
        except OSError as error:
            raise StorageError(f"cannot open {self.url}: {error}; is the host right?") from error

    def _run(self, call: Callable[[], T], nbytes: int) -> T:
        timeout_s = self._config.timeout_s + nbytes / SLOWEST_BYTES_PER_S
        return calls_for("fsspec").run(call, timeout_s)

    def _do(self, verb: str, path: str, call: Callable[[], T], nbytes: int = 0) -> T:
        """Have the file system do something, in bounded time.

        Raises:
            HeadraceError: what it raised, translated.
        """
        tried = f"cannot {verb} {self._full(path)}"
        try:
            return self._run(call, nbytes)
        except HeadraceError:
            raise
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFoundError(f"{tried}: no such file") from error
        except PermissionError as error:
            raise AccessError(f"{tried}: permission denied; let this user in") from error
        except TimeoutError as error:
            raise DeadlineError(
                f"{tried}: no answer in HEADRACE_FSSPEC_TIMEOUT_S={self._config.timeout_s:g} s and "
                "a second for each megabyte; look at the host and the network"
            ) from error
        except Exception as error:
            raise StorageError(f"{tried}: {type(error).__name__}: {error}") from error

    def _full(self, path: str) -> str:
        require_below(path, self.url)
        return f"{self._root}/{path}" if path else self._root or "/"

    def _info(self, path: str) -> Mapping[str, Any]:
        full = self._full(path)

        def ask() -> Mapping[str, Any]:
            self._fs.invalidate_cache()
            return cast("Mapping[str, Any]", self._fs.info(full))

        return self._do("stat", path, ask)

    def _kind(self, path: str) -> str | None:
        """Return what lies there as fsspec calls it: ``file``, ``directory``; None: nothing."""
        try:
            return str(self._info(path)["type"])
        except NotFoundError:
            return None

    def _below(self, folder: str, *, recursive: bool) -> Iterator[FileInfo]:
        full = self._full(folder)

        def ask() -> Sequence[Mapping[str, Any]]:
            self._fs.invalidate_cache()
            if recursive:
                return list(self._fs.find(full, detail=True).values())
            return cast("Sequence[Mapping[str, Any]]", self._fs.ls(full, detail=True))

        for info in self._do("list", folder, ask):
            if info["type"] == "file":
                path = str(info["name"]).rstrip("/")[len(self._root) + 1 :]
                yield file_info(info, path)

    def _move(self, old: str, new: str) -> None:
        """Rename a file, or copy and delete it where the file system has no rename.

        fsspec's own way of copying takes names for patterns.
        """
        if type(self._fs).mv is not AbstractFileSystem.mv:
            self._fs.mv(old, new)
        elif old != new:
            self._fs.cp_file(old, new)
            self._fs.rm_file(old)

    def _remove_all(self, folder: str) -> None:
        """Remove files, then folders from the deepest on; others may remove some meanwhile."""
        found = self._fs.find(folder, detail=True, withdirs=True)
        for path, info in found.items():
            if info["type"] == "file":
                with suppress(FileNotFoundError):
                    self._fs.rm_file(path)
        folders = [path for path, info in found.items() if info["type"] == "directory"]
        for path in sorted({*folders, folder}, key=len, reverse=True):
            with suppress(FileNotFoundError):
                self._fs.rmdir(path)


def is_known(scheme: str) -> bool:
    """Tell whether fsspec has a file system of this scheme, installed or not."""
    return scheme in set(fsspec.available_protocols())


def require_installed(url: str) -> str:
    """Check that the packages that fsspec needs for a URL are installed; nobody is asked.

    Returns:
        The one form of the URL.

    Raises:
        CallerError: it is no URL, or has a secret in it.
        ConfigError: one is missing.
    """
    address = StoreAddress.parse(url)
    try:
        fsspec.get_filesystem_class(address.scheme.removeprefix(PREFIX))
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"cannot open {address.url}: fsspec says {error}; install what it asks for"
        ) from error
    FsspecConfig.from_environment()
    return address.url
