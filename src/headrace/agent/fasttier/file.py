"""The bytes of the fast tier: in memory, on a fast disk, or both, in one numbering.

Neither file has a name: whatever ends the agent, the system frees its bytes. Only the agent
and its workers can reach them.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headrace.agent.arena import BLOCK, Extent
from headrace.core.errors import StorageError


@dataclass(frozen=True, slots=True)
class FastFile:
    """One of them."""

    fd: int
    """Descriptor, to be read and written at positions."""

    nbytes: int

    def close(self) -> None:
        """Give the bytes back; nobody reads or writes them any more."""
        os.close(self.fd)


@dataclass(frozen=True, kw_only=True, slots=True)
class FastFiles:
    """Where to read and write: positions below ``memory_bytes`` lie in memory, others on disk.

    May be used by any number of threads and processes.
    """

    memory_fd: int = -1
    memory_bytes: int = 0
    disk_fd: int = -1

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors of the files there are."""
        return tuple(fd for fd in (self.memory_fd, self.disk_fd) if fd >= 0)

    def is_memory(self, extent: Extent) -> bool:
        """Return whether an extent lies in memory."""
        return extent.offset < self.memory_bytes

    def read(self, extent: Extent, nbytes: int) -> bytes:
        """Return the first ``nbytes`` of an extent; fewer where the file ends.

        Raises:
            OSError: the disk failed.
        """
        fd, offset = self._place(extent)
        return os.pread(fd, min(nbytes, extent.length), offset)

    def write(self, extent: Extent, data: memoryview) -> None:
        """Write ``data`` to the beginning of an extent.

        Raises:
            OSError: the disk is full, or failed.
        """
        fd, offset = self._place(extent)
        while data:
            count = os.pwrite(fd, data, offset)
            data, offset = data[count:], offset + count

    def _place(self, extent: Extent) -> tuple[int, int]:
        if self.is_memory(extent):
            return self.memory_fd, extent.offset
        return self.disk_fd, extent.offset - self.memory_bytes


NO_FILES = FastFiles()
"""Of an agent without a fast tier."""


def disk_file(directory: Path, nbytes: int) -> FastFile:
    """Make a file on a disk; its bytes are reserved, so that the disk cannot become too full later.

    Raises:
        StorageError: the directory cannot be written to, or its disk has no such room.
    """
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            made = FastFile(os.dup(file.fileno()), nbytes)
    except OSError as error:
        raise StorageError(
            f"no file can be made in {directory}: {error.strerror}; name a directory of a "
            "fast disk that this user may write to"
        ) from error
    try:
        os.posix_fallocate(made.fd, 0, nbytes)
    except OSError as error:
        made.close()
        raise StorageError(
            f"{directory} has no room for {nbytes} B: {error.strerror}; make room or give "
            "the cache fewer bytes"
        ) from error
    return made


def memory_file(nbytes: int) -> FastFile:
    """Make a file in memory, which is taken from the system as it is written to."""
    usable = nbytes // BLOCK * BLOCK
    fd = os.memfd_create("headrace-cache", os.MFD_CLOEXEC)
    os.ftruncate(fd, usable)
    return FastFile(fd, usable)
