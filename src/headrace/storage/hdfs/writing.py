"""Writes one file piece by piece, although a DataNode may be dead.

hdfs-native mends a pipeline that breaks within a block. Where the pipeline of a next block
cannot be set up, the file is lost: it cannot name DataNodes to leave out, and the NameNode
goes on handing out a dead one for ten minutes. So the file is to be begun anew, after some
attempts with a single copy, whose DataNodes are drawn anew each time; the NameNode makes the
other copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.digest import Buffer
from headrace.core.errors import DeadlineError, HeadraceError
from headrace.storage.calls import calls_for
from headrace.storage.hdfs.failure import Fault, judge
from headrace.storage.hdfs.handles import Handles, file_info
from headrace.storage.hdfs.namenode import NATIVE_ERRORS, NameNodeAwayError, NameNodes
from headrace.storage.paths import hidden_part
from headrace.storage.port import FileInfo
from headrace.storage.writing import AbortingWriter, BrokenFileError, ended, flat

if TYPE_CHECKING:
    import hdfs_native
    from hdfs_native._internal import RawFileWriter

SLOWEST_BYTES_PER_S = 1e6
"""A write is given time for this rate, besides its timeout."""

STILL_BYTES_PER_S = 1e5
"""A pipeline that takes what is on its way at this rate moves: many writers may share its link."""

PIECE_BYTES = 4 << 20
"""Bytes that are handed to hdfs-native at once; smaller writes are gathered [bytes]."""

WRITES_IN_FLIGHT = 32
"""Files of a process that DataNodes and NameNode are busy with at the same time: to close one often
takes half a second, in which the NameNode waits for the DataNodes' reports."""

WHOLE_ATTEMPTS = 3
"""Attempts in a row with as many copies as the cluster makes by default."""

MISTRUST_S = 60.0
"""How long after the last broken pipeline files are begun with one copy at once [s]."""


@dataclass(slots=True)
class Pipelines:
    """What one store learnt of late about the DataNodes that it is given."""

    broken: int = 0
    """Pipelines in a row that broke, since the last whole one that held."""

    broke_at: float = 0.0
    """When the last one broke, on the monotonic clock [s]."""

    def want_one_copy(self) -> bool:
        """Tell whether the next file should begin with a single copy."""
        recent = time.monotonic() - self.broke_at < MISTRUST_S
        return recent and self.broken >= WHOLE_ATTEMPTS

    def note_broken(self) -> None:
        """Count one that broke."""
        self.broken += 1
        self.broke_at = time.monotonic()

    def note_whole(self) -> None:
        """Trust them again: one with all copies held."""
        self.broken = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file that is to be written."""

    path: str
    """Relative to the store's root."""

    full: str
    """Absolute in the cluster; whatever is there is replaced, folders are made."""

    timeout_s: float
    """Longest time in the cluster, besides that for the bytes at ``SLOWEST_BYTES_PER_S`` [s]."""

    still_s: float
    """Longest time in which nothing moves, besides that for what is on its way at
    ``STILL_BYTES_PER_S``: the pipeline then counts as broken, although hdfs-native still looks for
    a way to mend it [s]."""

    aside: str = field(init=False)
    """Where it is written."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "aside", hidden_part(self.full))

    @property
    def tried(self) -> str:
        """What to call the write in messages."""
        return f"write {self.full}"


class HdfsWriter(AbortingWriter):
    """Writes aside, syncs, closes, then renames over what was there. For one thread.

    Synced is the last block; those before it were taken by every DataNode of their pipelines,
    and lie on their disks as soon as ``dfs.datanode.synconclose`` says.
    """

    def __init__(
        self, new: NewFile, *, namenodes: NameNodes, pipelines: Pipelines, handles: Handles
    ) -> None:
        """Create the file aside.

        Raises:
            StorageError: refused, or no NameNode answers.
        """
        self._new = new
        self._namenodes = namenodes
        self._pipelines = pipelines
        self._handles = handles
        self._pending = bytearray()
        self._sent = 0
        self._spent_s = 0.0
        self._copies = 0
        self._published = False
        self._raw: RawFileWriter | None = None
        try:
            self._raw = namenodes.tell(new.tried, self._create)
            if pipelines.want_one_copy():
                self._copies = self._ask_for_one_copy()
        except BaseException:
            self.abort()
            raise

    def write(self, data: Buffer) -> None:
        """Append bytes; up to ``PIECE_BYTES`` are gathered before they are sent."""
        view = flat(data)
        if len(self._pending) + len(view) < PIECE_BYTES:
            self._pending += view
            return
        self._flush()
        for at in range(0, len(view), PIECE_BYTES):
            self._send(view[at : at + PIECE_BYTES])

    def commit(self) -> FileInfo:
        """Sync and close the file, ask for all its copies, and rename it."""
        try:
            self._flush()
            self._in_pipeline(sync_and_close)
            info = self._publish()
        finally:
            self.abort()
        self._handles.forget(info.path)
        self._handles.remember(info)
        return info

    def abort(self) -> None:
        """Delete what was written aside; what went wrong before is what is told."""
        raw, self._raw = self._raw, None
        if self._published:
            return
        with suppress(HeadraceError):
            self._namenodes.tell(
                f"delete {self._new.aside}", lambda client: client.delete(self._new.aside)
            )
        if raw is not None:  # it would send heartbeats for ever; without its file it closes at once
            calls_for("closing").start(raw.close)

    def _create(self, client: hdfs_native.Client) -> RawFileWriter:
        from hdfs_native import WriteOptions

        # Not ``client.create``: what that returns closes itself, and waits, when it is collected.
        return client.inner.create(self._new.aside, WriteOptions(overwrite=True))

    def _ask_for_one_copy(self) -> int:
        """Return how many copies the file had been going to have."""
        new, tell = self._new, self._namenodes.tell
        status = tell(new.tried, lambda client: client.get_file_info(new.aside))
        tell(new.tried, lambda client: client.set_replication(new.aside, 1))
        return status.replication or 1

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            self._send(memoryview(pending))

    def _send(self, piece: memoryview) -> None:
        self._sent += len(piece)
        data = bytes(piece)  # hdfs-native takes a view number by number: 100 MB/s of a core
        self._in_pipeline(lambda raw: raw.write(data))

    def _in_pipeline(self, call: Callable[[RawFileWriter], object]) -> None:
        raw, tried = self._raw, self._new.tried
        if raw is None:
            raise ended(self._new.full)
        budget_s = self._new.timeout_s + self._sent / SLOWEST_BYTES_PER_S
        left_s, begun = max(0.0, budget_s - self._spent_s), time.monotonic()
        still_s = self._new.still_s + min(self._sent, 2 * PIECE_BYTES) / STILL_BYTES_PER_S
        try:
            calls_for("writing", WRITES_IN_FLIGHT).run(lambda: call(raw), min(left_s, still_s))
        except TimeoutError as error:
            if left_s > still_s:
                raise self._broken(f"nothing moved for {still_s:g} s") from error
            raise DeadlineError(
                f"cannot {tried}: the DataNodes did not take {self._sent} bytes in {budget_s:g} s; "
                "are they frozen, overloaded or cut off? Look at their logs and at the network"
            ) from error
        except NATIVE_ERRORS as error:
            raise self._translated(error) from error
        finally:
            self._spent_s += time.monotonic() - begun

    def _translated(self, error: BaseException) -> HeadraceError:
        failure = judge(error)
        if failure.fault not in (Fault.NAMENODE, Fault.DATANODES):
            return failure.error(self._new.tried)
        return self._broken(failure.reason)

    def _broken(self, reason: str) -> BrokenFileError:
        self._pipelines.note_broken()
        return BrokenFileError(
            f"cannot {self._new.tried}: the DataNodes chosen for it do not take it; begin the "
            f"file anew; {reason}"
        )

    def _publish(self) -> FileInfo:
        new, tell = self._new, self._namenodes.tell
        status = self._namenodes.ask(new.tried, lambda client: client.get_file_info(new.aside))
        if self._copies:
            tell(new.tried, lambda client: client.set_replication(new.aside, self._copies))
        else:
            self._pipelines.note_whole()
        self._rename(status)
        self._published = True
        return file_info(status, new.path)

    def _rename(self, status: hdfs_native.FileStatus) -> None:
        new = self._new
        try:
            self._namenodes.tell(new.tried, lambda client: client.rename(new.aside, new.full, True))
        except (NameNodeAwayError, DeadlineError):
            if not self._was_renamed(status):
                raise

    def _was_renamed(self, status: hdfs_native.FileStatus) -> bool:
        """Tell whether the name has this very file: only the answer may have been lost."""
        with suppress(HeadraceError):
            there = self._namenodes.ask(
                self._new.tried, lambda client: client.get_file_info(self._new.full)
            )
            mark = (status.length, status.modification_time)
            return (there.length, there.modification_time) == mark
        return False


def sync_and_close(raw: RawFileWriter) -> None:
    """Have the last block on disks, where a file can be synced, and the file complete."""
    try:
        raw.hsync()
    except RuntimeError as error:
        if "erasure-coded" not in str(error):  # these cannot be synced
            raise
    raw.close()
