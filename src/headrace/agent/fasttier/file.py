"""The fast tier's file: as large as it may get, without a name, gone with the agent."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from headrace.core.errors import StorageError


class FastFile:
    """Bytes on a fast disk that only this agent and its workers can reach.

    The file has no name: whatever ends the agent, the system frees its bytes. They are reserved
    at once, so that the disk cannot become too full later.
    """

    def __init__(self, directory: Path, nbytes: int) -> None:
        """Make the file.

        Raises:
            StorageError: the directory cannot be written to, or its disk has no such room.
        """
        self.nbytes = nbytes
        try:
            with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
                self.fd = os.dup(file.fileno())
                """Descriptor, to be read and written at positions."""
        except OSError as error:
            raise StorageError(
                f"no file can be made in {directory}: {error.strerror}; name a directory of a "
                "fast disk that this user may write to"
            ) from error
        try:
            os.posix_fallocate(self.fd, 0, nbytes)
        except OSError as error:
            self.close()
            raise StorageError(
                f"{directory} has no room for {nbytes} B: {error.strerror}; make room or give "
                "the cache fewer bytes"
            ) from error

    def close(self) -> None:
        """Give the disk's bytes back; nobody reads or writes them any more."""
        os.close(self.fd)
