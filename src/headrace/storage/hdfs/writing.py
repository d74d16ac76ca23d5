"""Writes one file, although a DataNode of its pipeline may be dead.

hdfs-native cannot name DataNodes to leave out, and the NameNode goes on handing out a dead
one for ten minutes. So a failed write is begun again, at last with a single copy, whose
DataNode is drawn anew each time; the NameNode makes the other copies.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.errors import StorageError
from headrace.storage.hdfs.failure import Fault, judge
from headrace.storage.hdfs.namenode import NATIVE_ERRORS, NameNodes

if TYPE_CHECKING:
    import hdfs_native

SLOWEST_BYTES_PER_S = 1e6
"""A write is given time for this rate, besides its timeout."""

WHOLE_ATTEMPTS = 3
"""Attempts with as many copies as the cluster makes by default."""

SINGLE_ATTEMPTS = 12
"""Attempts with one copy: where one of three DataNodes is dead, 1 in 3 writes 2.5 blocks."""


PAUSE_S = 0.2
"""Before another attempt: DataNodes report finished blocks by and by [s]."""


class _PipelineError(StorageError):
    """A DataNode did not take the bytes; another may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file that is to be written."""

    path: str
    """Absolute; whatever is there is overwritten, folders are made."""

    data: bytes
    tried: str
    """What to call the write in messages."""

    timeout_s: float
    """Longest attempt, besides the time for the bytes at ``SLOWEST_BYTES_PER_S`` [s]."""

    def write(self, namenodes: NameNodes) -> None:
        """Write it.

        Raises:
            StorageError: refused, or no DataNode takes the bytes; a part may be left behind.
            DeadlineError: it takes too long.
        """
        try:
            self._attempt(namenodes, WHOLE_ATTEMPTS, copies=None)
        except _PipelineError:
            begun = namenodes.ask(self.tried, lambda client: client.get_file_info(self.path))
            self._attempt(namenodes, SINGLE_ATTEMPTS, copies=1)
            namenodes.tell(
                self.tried, lambda client: client.set_replication(self.path, begun.replication or 1)
            )

    def _attempt(self, namenodes: NameNodes, attempts: int, *, copies: int | None) -> None:
        timeout_s = self.timeout_s + len(self.data) / SLOWEST_BYTES_PER_S
        for left in reversed(range(attempts)):
            try:
                namenodes.tell(
                    self.tried, lambda client: self._put(client, copies), timeout_s=timeout_s
                )
            except _PipelineError:
                if not left:
                    raise
                time.sleep(PAUSE_S)
            else:
                return

    def _put(self, client: hdfs_native.Client, copies: int | None) -> None:
        from hdfs_native import WriteOptions

        writer = client.create(self.path, WriteOptions(replication=copies, overwrite=True))
        try:
            writer.write(self.data)
        except NATIVE_ERRORS as error:  # closing it would only wait for the file to be complete
            failure = judge(error)
            if failure.fault in (Fault.NAMENODE, Fault.DATANODES):
                raise _PipelineError(
                    f"cannot {self.tried}: the DataNodes chosen for it do not take it; "
                    f"{failure.reason}"
                ) from error
            raise failure.error(self.tried) from error
        writer.close()
