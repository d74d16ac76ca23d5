"""The storage port over HDFS.

What it adds to hdfs-native: open files that outlive a NameNode's restart, bounded waits,
ranges in parallel, reads past the end that are errors, atomic writes, places of blocks, and
errors that name the DataNode or NameNode and what to do.
"""

from __future__ import annotations

import os
import posixpath
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headrace.core.errors import AccessError, CallerError, HeadraceError, NotFoundError
from headrace.storage.hdfs.address import parse_address
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.folders import did_you_mean, sorted_entries
from headrace.storage.hdfs.handles import Handles, file_info
from headrace.storage.hdfs.joining import join
from headrace.storage.hdfs.namenode import NameNodes
from headrace.storage.hdfs.observing import Observing
from headrace.storage.hdfs.reading import Reading
from headrace.storage.hdfs.webhdfs import WebHdfs
from headrace.storage.hdfs.webports import WebPorts
from headrace.storage.hdfs.writing import HdfsWriter, NewFile, Pipelines
from headrace.storage.paths import require_below
from headrace.storage.port import CLOSED_FOLDER, BlockPlace, ByteRange, FileInfo, StoreState
from headrace.storage.writing import write_anew

if TYPE_CHECKING:
    import hdfs_native

STILL = 4
"""A write in which nothing moves for so many timeouts of a DataNode is begun anew: hdfs-native has
tried other DataNodes in that time, or never will."""


class HdfsStorage:
    """Files below one directory of HDFS. Thread-safe, and usable in a forked child.

    Also ``Locates``, ``Replicates``, ``Assembles`` and ``Observes``.
    """

    def __init__(self, url: str, config: HdfsConfig | None = None) -> None:
        """Open an existing directory.

        Args:
            url: ``hdfs://NAMENODE:PORT/path``, ``hdfs://NAMESERVICE/path`` or ``hdfs:///path``.
            config: What the URL does not say; None is what the environment says.

        Raises:
            ConfigError: the configuration is missing or does not know the nameservice, or
                the extra ``hdfs`` is not installed.
            NotFoundError: there is no such directory; names the nearest one that is there.
            StorageError: the NameNode cannot be reached, or refuses.
        """
        config = config or HdfsConfig.from_environment()
        self._address = parse_address(url, config)
        self._config = config
        self._root = self._address.root
        self._namenodes = NameNodes(self._address, config)
        self._handles = Handles(self._namenodes, self._root, config)
        self._reading = self._new_reading()
        self._pipelines = Pipelines()
        self._ports = WebPorts(config.namenode_timeout_s)
        self._web = WebHdfs(self._address, config, self._ports)
        self._observing = Observing(self._address, self._ports)
        _live.add(self)
        self._require_directory()

    @property
    def url(self) -> str:
        """The root: ``hdfs://``, the NameNode or nameservice, the path."""
        return self._address.url

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        """Yield every file below ``prefix``, in path order."""
        prefix = prefix.strip("/")
        if prefix:  # that the root is a folder is known
            with self._hinting(prefix):
                status = self._status(prefix)
            if not status.isdir:
                yield file_info(status, prefix)
                return
        yield from self._walk(prefix, hidden=hidden, recursive=recursive)

    def stat(self, path: str) -> FileInfo:
        """Describe one file; its version is the modification time in milliseconds.

        A file that is open for reading is described as it was when the NameNode last
        confirmed it, at most ``revalidate_s`` ago, or longer while no NameNode answers.
        """
        self._full(path)
        with self._hinting(path):
            return self._handles.stat(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return ``length`` bytes from ``offset`` (to the end when None)."""
        ranges = None if length is None else [ByteRange(offset, length)]
        self._full(path)
        with self._hinting(path):
            return self._reading.read(path, ranges, offset)[0]

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Sequence[bytes]:
        """Return the bytes of each range, in the order asked for; all are of one version."""
        self._full(path)
        with self._hinting(path):
            return self._reading.read(path, ranges)

    def write(self, path: str, data: bytes) -> FileInfo:
        """Create or replace a file: written aside, closed, then renamed over the old one."""
        return write_anew(lambda: self.create(path), lambda writer: writer.write(data))

    def create(self, path: str) -> HdfsWriter:
        """Begin a file that is too large for ``write``, aside; folders are made.

        After some pipelines broke of late, it has one copy until it is committed.
        """
        config = self._config
        new = NewFile(
            path=path,
            full=self._full(path),
            timeout_s=config.read_timeout_s,
            still_s=STILL * config.datanode_timeout_s,
        )
        return HdfsWriter(
            new, namenodes=self._namenodes, pipelines=self._pipelines, handles=self._handles
        )

    def rename(self, source: str, target: str) -> None:
        """Move a file, replacing ``target`` atomically; folders of ``target`` are made."""
        with self._hinting(source):
            self._status(source)
        try:
            self._move(self._full(source), self._full(target))
        finally:
            self._handles.forget(source, target)

    def delete(self, path: str) -> None:
        """Remove one file; a file that is already gone is not an error."""
        full = self._full(path)
        self._handles.forget(path)
        try:
            status = self._status(path)
        except NotFoundError:
            return
        file_info(status, path)
        self._namenodes.tell(f"delete {full}", lambda client: client.delete(full))

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is below it; one that is already gone is not an error."""
        full = self._full(path)
        if posixpath.normpath(full) == posixpath.normpath(self._root or "/"):
            raise CallerError(f"{path!r} is the root {self.url} itself; name a folder below it")
        self._handles.clear()
        try:
            status = self._status(path)
        except NotFoundError:
            return
        if not status.isdir:
            raise NotFoundError(f"cannot delete {full}: it is a file; name a folder")
        self._namenodes.tell(f"delete {full}", lambda client: client.delete(full, recursive=True))

    def locations(self, path: str) -> Sequence[BlockPlace]:
        """Return a file's blocks in order, as they are placed now, nearest replicas first."""
        full = self._full(path)
        with self._hinting(path):
            return self._web.locate(full)

    def replication(self, path: str) -> int:
        """Return how many copies of a file are asked for."""
        return int(self._file_status(path).replication or 1)

    def set_replication(self, path: str, copies: int) -> None:
        """Ask for another number of copies; the NameNode makes or drops them by and by."""
        full = self._full(path)
        self._file_status(path)
        self._namenodes.tell(
            f"set the replication of {full} to {copies}",
            lambda client: client.set_replication(full, copies),
        )

    def assemble(self, path: str, parts: Sequence[str]) -> FileInfo:
        """Make one file of several of one folder by moving their blocks, then rename it."""
        full = self._full(path)
        try:
            whole = join(self._namenodes, self._web, [self._full(part) for part in parts])
            info = file_info(self._status_of(whole), path)
            self._move(whole, full)
        finally:
            self._handles.forget(path, *parts)
        return info

    def state(self) -> StoreState:
        """Return how busy the cluster is, as its daemons tell by HTTP."""
        return self._observing.state()

    def close(self) -> None:
        """Drop the open files and the connections."""
        self._handles.clear()
        self._ports.close()

    def renew(self) -> None:
        """Begin anew in a forked child, with nothing of the parent's threads and sockets."""
        self._ports.forget()
        self._handles = Handles(self._namenodes, self._root, self._config)
        self._reading = self._new_reading()

    def _move(self, old: str, new: str) -> None:
        """Rename what lies at an absolute path, folders made."""
        tried = f"rename {old} to {new}"
        self._namenodes.tell(
            tried, lambda client: client.mkdirs(posixpath.dirname(new), create_parent=True)
        )
        self._namenodes.tell(tried, lambda client: client.rename(old, new, True))

    def _full(self, path: str) -> str:
        """Return the absolute path in the cluster.

        Raises:
            CallerError: it would lie outside the root.
        """
        require_below(path, self.url)
        return f"{self._root}/{path}" if path else self._root or "/"

    def _new_reading(self) -> Reading:
        return Reading(self._handles, self._config, name=self._full, holders=self._holders)

    def _holders(self, path: str, offset: int) -> Sequence[str]:
        """Return the DataNodes that hold a byte, for messages; none if nobody tells."""
        with suppress(HeadraceError):
            for block in self._web.locate(self._full(path)):
                if block.offset <= offset < block.offset + block.length:
                    return [replica.address for replica in block.replicas]
        return ()

    def _require_directory(self) -> None:
        with self._hinting(""):
            status = self._status("")
        if not status.isdir:
            raise NotFoundError(f"{self.url} is a file; name the directory that holds it")

    def _status(self, path: str) -> hdfs_native.FileStatus:
        return self._status_of(self._full(path))

    def _status_of(self, full: str) -> hdfs_native.FileStatus:
        return self._namenodes.ask(f"stat {full}", lambda client: client.get_file_info(full))

    def _file_status(self, path: str) -> hdfs_native.FileStatus:
        with self._hinting(path):
            status = self._status(path)
        file_info(status, path)
        return status

    def _walk(self, folder: str, *, hidden: bool, recursive: bool) -> Iterator[FileInfo]:
        for name, status in sorted_entries(self._namenodes, self._full(folder)):
            path = f"{folder}/{name}" if folder else name
            if not hidden and name.startswith("."):
                continue
            if not status.isdir:
                info = file_info(status, path)
                self._handles.remember(info)
                yield info
            elif recursive:
                yield from self._descend(path, hidden=hidden)

    def _descend(self, folder: str, *, hidden: bool) -> Iterator[FileInfo]:
        try:
            yield from self._walk(folder, hidden=hidden, recursive=True)
        except AccessError:
            yield FileInfo(folder, 0, CLOSED_FOLDER)

    @contextmanager
    def _hinting(self, path: str) -> Iterator[None]:
        """Add to an error that something is not there what may have been meant."""
        try:
            yield
        except NotFoundError as error:
            self._handles.forget(path)
            hint = did_you_mean(self._namenodes, self._full(path))
            raise NotFoundError(f"{error}{hint}") from error


_live: weakref.WeakSet[HdfsStorage] = weakref.WeakSet()


def _renew_all() -> None:
    for storage in list(_live):
        storage.renew()


os.register_at_fork(after_in_child=_renew_all)
