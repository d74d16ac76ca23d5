"""Open files: a block list each, kept, so that reading does not ask the NameNode again.

Blocks of HDFS do not change, so an open file is a snapshot: its bytes are those of one
version, however long it is read and whatever becomes of its name meanwhile. Which version
that is, is settled by describing the file before and after its blocks were asked for.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.errors import DeadlineError, NotFoundError
from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.namenode import NameNodeAwayError, NameNodes
from headrace.storage.port import FileInfo

if TYPE_CHECKING:
    import hdfs_native

REMEMBERED = 16_384
"""Descriptions of files that are kept from listings, to open these with one question less."""

REVALIDATION_S = 2.0
"""Longest wait for a NameNode that only confirms what is known [s]."""


@dataclass(slots=True)
class Handle:
    """One open file."""

    reader: hdfs_native.FileReader
    size: int
    """Bytes that can be read; fewer than ``info.size`` while the file is being written."""

    info: FileInfo
    """The file as it was described before its blocks were asked for."""

    checked_at: float | None = None
    """When the NameNode last confirmed ``info``, on the monotonic clock; None if not yet [s]."""


class Handles:
    """The open files of one store, the most recently used ones. Thread-safe."""

    def __init__(self, namenodes: NameNodes, root: str, config: HdfsConfig) -> None:
        self._namenodes = namenodes
        self._root = root
        self._config = config
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Handle] = OrderedDict()
        self._described: OrderedDict[str, FileInfo] = OrderedDict()
        self._trusted_until = 0.0

    def get(self, path: str) -> Handle:
        """Return the open file, opened if need be.

        Raises: as ``NameNodes.ask``.
        """
        with self._lock:
            handle = self._open.get(path)
            if handle is not None:
                self._open.move_to_end(path)
                return handle
        return self._opened(path)

    def reopened(self, path: str, handle: Handle) -> Handle | None:
        """Return another handle of the version that is open, used from now on; None if changed.

        Raises: as ``NameNodes.ask``; what is open stays so.
        """
        full = f"{self._root}/{path}"
        reader = self._namenodes.ask(f"open {full}", lambda client: client.read(full))
        if self.describe(path) != handle.info or len(reader) != handle.size:
            return None
        other = Handle(reader, handle.size, handle.info, checked_at=time.monotonic())
        self.keep(path, other)
        return other

    def keep(self, path: str, handle: Handle) -> None:
        """Use this handle from now on; the least recently used one is dropped for it."""
        with self._lock:
            self._open[path] = handle
            self._open.move_to_end(path)
            while len(self._open) > self._config.open_files:
                self._open.popitem(last=False)

    def stat(self, path: str) -> FileInfo:
        """Describe a file: an open one as it is known to be, confirmed now and then.

        A NameNode that does not answer does not stop readers: what was confirmed stands.
        """
        with self._lock:
            handle = self._open.get(path)
        if handle is None:
            return self.describe(path)
        now = time.monotonic()
        if handle.checked_at is not None and now < self._good_until(handle.checked_at):
            return handle.info
        try:
            info = self._confirm(path, patient=handle.checked_at is None)
        except (NameNodeAwayError, DeadlineError):
            if handle.checked_at is None:
                raise
            self._trusted_until = time.monotonic() + self._config.revalidate_s
            return handle.info
        except NotFoundError:
            self.forget(path)
            raise
        return self._compared(path, handle, info)

    def describe(self, path: str) -> FileInfo:
        """Describe a file as the NameNode sees it now."""
        full = f"{self._root}/{path}"
        status = self._namenodes.ask(f"stat {full}", lambda client: client.get_file_info(full))
        info = file_info(status, path)
        self.remember(info)
        return info

    def remember(self, info: FileInfo) -> None:
        """Keep what a listing said of a file; one that is open as another version is let go."""
        with self._lock:
            handle = self._open.get(info.path)
            if handle is not None and handle.info != info:
                del self._open[info.path]
            self._described[info.path] = info
            self._described.move_to_end(info.path)
            while len(self._described) > REMEMBERED:
                self._described.popitem(last=False)

    def forget(self, *paths: str) -> None:
        """Drop what is known of files that this store changed, or that turned out different."""
        with self._lock:
            for path in paths:
                self._open.pop(path, None)
                self._described.pop(path, None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._open.clear()
            self._described.clear()

    def _opened(self, path: str) -> Handle:
        with self._lock:
            known = self._described.get(path)
        info = known or self.describe(path)
        full = f"{self._root}/{path}"
        reader = self._namenodes.ask(f"open {full}", lambda client: client.read(full))
        handle = Handle(reader, len(reader), info)
        self.keep(path, handle)
        return handle

    def _good_until(self, checked_at: float) -> float:
        return max(checked_at + self._config.revalidate_s, self._trusted_until)

    def _confirm(self, path: str, *, patient: bool) -> FileInfo:
        if patient:
            return self.describe(path)
        full = f"{self._root}/{path}"
        timeout_s = min(REVALIDATION_S, self._config.namenode_timeout_s)
        status = self._namenodes.tell(
            f"stat {full}", lambda client: client.get_file_info(full), timeout_s=timeout_s
        )
        return file_info(status, path)

    def _compared(self, path: str, handle: Handle, info: FileInfo) -> FileInfo:
        if info == handle.info:
            handle.checked_at = time.monotonic()
        else:
            self.forget(path)
            self.remember(info)
        return info


def file_info(status: hdfs_native.FileStatus, path: str) -> FileInfo:
    """Return how the port describes a file.

    The version is the modification time [ms], which every write sets when it ends; together
    with the size it is what the NameNode tells without another question.

    Raises:
        NotFoundError: it is a directory.
    """
    if status.isdir:
        raise NotFoundError(f"{status.path} is a directory; name a file")
    modified_ms = status.modification_time
    return FileInfo(path, status.length, str(modified_ms), modified_ms / 1000)
