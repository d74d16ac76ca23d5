"""Storage in a directory of this host, or of anything mounted on it.

**Symbolic links** are followed as long as they lead to a place inside the root (or inside
``links_within``, when a wider directory is trusted). A link that leads elsewhere, or
nowhere, is still listed, with size 0, and reading it says where it leads: nothing outside
is ever read, and nothing is silently left out. So is a folder that is closed to this user.
A link that leads back to a directory above itself is not descended into.
"""
# Plain os calls: this is the path of every read, and building a Path costs as much as the read.
# ruff: noqa: PTH103, PTH105, PTH108, PTH113, PTH115, PTH116, PTH120

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import Any, TypeAlias

from headrace.core.digest import Buffer
from headrace.core.errors import (
    AccessError,
    CallerError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.storage.assembling import join, sync_folder
from headrace.storage.neighbours import did_you_mean, is_pattern
from headrace.storage.paths import require_below
from headrace.storage.port import CLOSED_FOLDER, ByteRange, FileInfo
from headrace.storage.unnamed import UnnamedFile
from headrace.storage.writing import AbortingWriter, ended, flat

NOWHERE = "link"
"""Version of a listed link that leads outside the root or to nothing."""


_Entries: TypeAlias = "list[tuple[str, os.DirEntry[str]]]"


@dataclass(frozen=True, slots=True)
class _Visit:
    """A folder while it is being listed."""

    real: str
    path: str
    identities: tuple[tuple[int, int], ...]
    """Of the folder and all above it: a link back to one of them is not followed."""

    hidden: bool
    recursive: bool


class LocalStorage:
    """Files below one directory. Thread-safe: it keeps no open files and no position.

    Also ``Assembles``.
    """

    def __init__(self, root: str | Path, *, links_within: str | Path | None = None) -> None:
        """Open an existing directory.

        Args:
            root: The directory; paths given to the other methods are relative to it.
            links_within: Directory that symbolic links may lead into; None is the root.

        Raises:
            NotFoundError: there is no such directory; names the nearest one that is there.
        """
        given = Path(root).expanduser()
        if not given.exists() and is_pattern(given.absolute()):
            raise NotFoundError(
                f"{given} is a pattern, which is not expanded; name the folder, all files below "
                "which are taken"
            )
        if not given.exists():
            raise NotFoundError(f"no directory at {given}{did_you_mean(given.absolute())}")
        if not given.is_dir():
            raise NotFoundError(f"{given} is a file; name the directory that holds it")
        self._root = os.path.realpath(given)
        self._bounds = self._root if links_within is None else os.path.realpath(links_within)

    @property
    def url(self) -> str:
        """The root as an absolute path, symbolic links resolved."""
        return self._root

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, in path order."""
        real = self._locate(prefix) if prefix else self._root
        with _translated("list", real):
            status = os.stat(real)
        if not S_ISDIR(status.st_mode):
            yield _describe(prefix, status)
            return
        visit = _Visit(real, prefix.strip("/"), (_identity(status),), hidden, recursive)
        yield from self._walk(visit, _entries(visit))

    def stat(self, path: str) -> FileInfo:
        """Describe one file; its version is the modification time in nanoseconds."""
        with self._opened(path, os.O_PATH) as (_, status):
            return _describe(path, status)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return ``length`` bytes from ``offset`` (to the end when None)."""
        with self._opened(path, os.O_RDONLY) as (handle, status):
            wanted = max(0, status.st_size - offset) if length is None else length
            return _pread(handle, ByteRange(offset, wanted), path)

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Sequence[bytes]:
        """Return the bytes of each range, in the order asked for; the file is opened once."""
        with self._opened(path, os.O_RDONLY) as (handle, _):
            return [_pread(handle, wanted, path) for wanted in ranges]

    def read_described(
        self, path: str, ranges: Sequence[ByteRange]
    ) -> tuple[Sequence[bytes], FileInfo]:
        """Return the bytes of each range, and the file they are of as it is after that."""
        with self._opened(path, os.O_RDONLY) as (handle, _):
            found = [_pread(handle, wanted, path) for wanted in ranges]
            return found, _describe(path, os.fstat(handle))

    def write(self, path: str, data: bytes) -> FileInfo:
        """Create or replace a file: written aside, synced, then renamed over the old one."""
        with self.create(path) as writer:
            writer.write(data)
            return writer.commit()

    def create(self, path: str) -> LocalWriter:
        """Begin a file that is too large for ``write``, aside; folders are made."""
        return LocalWriter(path, self._locate(path))

    def rename(self, source: str, target: str) -> None:
        """Move a file, replacing ``target`` atomically; folders of ``target`` are made."""
        old, new = self._locate(source), self._locate(target)
        folder = os.path.dirname(new)
        with _translated("rename", old):
            os.makedirs(folder, exist_ok=True)
            os.replace(old, new)
            sync_folder(folder)

    def delete(self, path: str) -> None:
        """Remove one file; a file that is already gone is not an error."""
        real = self._locate(path)
        with _translated("delete", real):
            _remove_if_there(real)

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is below it; one that is already gone is not an error."""
        real = self._locate(path)
        if real == self._root:
            raise CallerError(f"{path!r} is the root {self._root} itself; name a folder below it")
        if os.path.isfile(real):
            raise NotFoundError(f"cannot delete {real}: it is a file; name a folder")
        with _translated("delete", real):
            shutil.rmtree(real, onerror=_raise_unless_gone)

    def assemble(self, path: str, parts: Sequence[str]) -> FileInfo:
        """Make one file of several of one folder inside the kernel, then rename it."""
        for part in parts:
            self.stat(part)
        real = self._locate(path)
        folder = os.path.dirname(real)
        with _translated("join", real):
            whole = join([self._locate(part) for part in parts])
            status = os.stat(whole)
            os.makedirs(folder, exist_ok=True)
            os.replace(whole, real)
            sync_folder(folder)
        return _describe(path, status)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _join(self, path: str) -> str:
        require_below(path, self._root)
        return f"{self._root}/{path}"

    def _locate(self, path: str) -> str:
        real = os.path.realpath(self._join(path))
        self._require_inside(real, path)
        return real

    def _require_inside(self, real: str, path: str) -> None:
        if not _is_below(real, self._bounds) and not _is_below(real, self._root):
            raise AccessError(
                f"{self._root}/{path} links to {real}, outside {self._bounds}; "
                "copy it there, or open the directory that holds both"
            )

    def _opened(self, path: str, mode: int) -> _Opened:
        """Return what opens a file and judges what was opened: no link can change in between."""
        return _Opened(self._join(path), mode, lambda real: self._require_inside(real, path))

    def _walk(self, visit: _Visit, entries: _Entries) -> Iterator[FileInfo]:
        for name, entry in entries:
            path = f"{visit.path}/{entry.name}" if visit.path else entry.name
            if not name.endswith("/"):
                yield from self._describe_entry(path, entry)
            elif visit.recursive:
                yield from self._descend(path, visit)

    def _descend(self, path: str, above: _Visit) -> Iterator[FileInfo]:
        try:
            real = self._locate(path)
            with _translated("list", real):
                identity = _identity(os.stat(real))
            visit = replace(above, real=real, path=path, identities=(*above.identities, identity))
            entries = _entries(visit)
        except HeadraceError:
            yield FileInfo(path, 0, CLOSED_FOLDER)
            return
        if identity not in above.identities:
            yield from self._walk(visit, entries)

    def _describe_entry(self, path: str, entry: os.DirEntry[str]) -> Iterator[FileInfo]:
        try:
            if entry.is_symlink():
                self._locate(path)
            status = entry.stat()
        except (OSError, HeadraceError):
            if entry.is_symlink():
                yield FileInfo(path, 0, NOWHERE)
            return  # deleted since the directory was read
        if S_ISREG(status.st_mode):
            yield _describe(path, status)


class _Opened:
    """An open file, and what it was when it was opened. A class: each sample is read by one."""

    __slots__ = ("_check", "_handle", "_mode", "_path")

    def __init__(self, path: str, mode: int, check: Callable[[str], None]) -> None:
        self._path = path
        self._mode = mode
        self._check = check
        self._handle = -1

    def __enter__(self) -> tuple[int, os.stat_result]:
        try:
            self._handle = os.open(self._path, self._mode | os.O_CLOEXEC | os.O_NONBLOCK)
            return self._handle, self._judged()
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise _told("read", self._path, error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._close()
        if isinstance(error, OSError):
            raise _told("read", self._path, error) from error

    def _judged(self) -> os.stat_result:
        self._check(os.readlink(f"/proc/self/fd/{self._handle}"))
        status = os.fstat(self._handle)
        if not S_ISREG(status.st_mode):
            raise NotFoundError(f"{self._path} is not a regular file; name a file")
        return status

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _entries(visit: _Visit) -> _Entries:
    """Return a folder's entries in path order: folders sort with a slash behind their names."""
    with _translated("list", visit.real), os.scandir(visit.real) as entries:
        return sorted(
            (entry.name + "/" * _is_folder(entry), entry)
            for entry in entries
            if visit.hidden or not entry.name.startswith(".")
        )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or through a folder that is closed to this user
        return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _describe(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, status.st_size, str(status.st_mtime_ns), status.st_mtime)


def _pread(handle: int, wanted: ByteRange, path: str) -> bytes:
    data = os.pread(handle, wanted.length, wanted.offset)
    if len(data) == wanted.length:
        return data
    parts, got = [data], len(data)
    while got < wanted.length:
        data = os.pread(handle, wanted.length - got, wanted.offset + got)
        if not data:
            raise StorageError(
                f"{path} ends at byte {os.fstat(handle).st_size}, but {wanted.length} bytes from "
                f"{wanted.offset} were asked for; it was truncated: restore it, or index again"
            )
        parts.append(data)
        got += len(data)
    return b"".join(parts)


class LocalWriter(AbortingWriter):
    """Writes without a name where that can be, syncs, then takes the name of what was there."""

    def __init__(self, path: str, real: str) -> None:
        self._path, self._real = path, real
        self._folder = os.path.dirname(real)
        self._file: UnnamedFile | None = None
        with _translated("write", real):
            os.makedirs(self._folder, exist_ok=True)
            self._file = UnnamedFile(real)

    def write(self, data: Buffer) -> None:
        """Append bytes."""
        view = flat(data)
        with self._writing() as file:
            while view:
                view = view[os.write(file.handle, view) :]

    def commit(self) -> FileInfo:
        """Sync the file, name it and sync its folder."""
        try:
            with self._writing() as file:
                os.fsync(file.handle)
                status = os.fstat(file.handle)
                file.publish()
                sync_folder(self._folder)
        finally:
            self.abort()
        return _describe(self._path, status)

    def abort(self) -> None:
        """Drop what was not committed."""
        file, self._file = self._file, None
        if file is not None:
            file.discard()

    @contextmanager
    def _writing(self) -> Iterator[UnnamedFile]:
        if self._file is None:
            raise ended(self._real)
        with _translated("write", self._real):
            yield self._file


def _raise_unless_gone(_call: object, _path: str, failure: tuple[Any, Any, Any]) -> None:
    """Raise what kept something from being removed; another may have removed it meanwhile."""
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]


def _remove_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


_ADVICE = {
    errno.EACCES: "permission denied; let this user in, or choose another place",
    errno.EPERM: "not permitted; let this user in, or choose another place",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.ELOOP: "it is a link that leads to itself; remove it",
    errno.EIO: "the device reported an error; look at the kernel's log",
    errno.EMFILE: "this process has too many open files; raise `ulimit -n`",
}

_CLOSED = (errno.EACCES, errno.EPERM, errno.ELOOP)


@contextmanager
def _translated(verb: str, path: str) -> Iterator[None]:
    """Turn an ``OSError`` into an error that says what was tried and what to do."""
    try:
        yield
    except OSError as error:
        raise _told(verb, path, error) from error


def _told(verb: str, path: str, error: OSError) -> HeadraceError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"cannot {verb} {path}: no such file{did_you_mean(Path(path))}")
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return NotFoundError(f"cannot {verb} {path}: {error.strerror}; name a file")
    advice = _ADVICE.get(error.errno or 0, f"{error.strerror or error}; check the mount")
    kind = AccessError if error.errno in _CLOSED else StorageError
    return kind(f"cannot {verb} {path}: {advice}")
