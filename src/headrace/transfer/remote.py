"""Has chunks copied by another process: an agent beside the stores.

``POST /v1/copies`` with a ``CopyCall`` is answered with messages, each with its length before it
(4 bytes, little-endian): ``CopyProgress`` once a second, the last of which tells how it ended.
A client that leaves ends the copy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import msgspec

from headrace.core.errors import (
    AgentUnavailableError,
    CallerError,
    CorruptDataError,
    HeadraceError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    StaleError,
    StorageError,
)
from headrace.transfer.chunk import ChunkDone, ChunkTask
from headrace.wire.connection import Answer, Connection

PROGRESS_S = 1.0
"""Time between two messages of an agent that copies [s]."""

SILENCE_S = 20.0
"""An agent that says nothing this long is given up [s]."""

LENGTH = struct.Struct("<I")

_MOST_BYTES = 1 << 20

_ERRORS: Mapping[str, type[HeadraceError]] = {
    "stale": StaleError,
    "not-found": NotFoundError,
    "corrupt": CorruptDataError,
    "refused": CallerError,
    "storage": StorageError,
}
"""By the name that an agent gives them; the first that fits counts."""


class CopyCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Chunks to copy, all between the same two stores."""

    tasks: tuple[ChunkTask, ...]
    bytes_per_s: float | None = None
    """Most that is read from the source in any second, for all of them together; None: nothing is
    limited [B/s]."""


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a copy is; the last has ``done`` or ``error``."""

    moved_bytes: int
    """Asked of the source so far [bytes]."""

    done: tuple[ChunkDone, ...] | None = None
    """What was done, in the order of the tasks."""

    error: str = ""
    code: str = ""
    """The error's stable name: ``stale``, ``not-found``, ``corrupt``, ``refused``, ``storage``,
    ``stopped``, ``defect``."""


def code_of(error: BaseException) -> str:
    """Return what an agent calls an error that ended a copy; ``defect`` if headrace is at fault."""
    if not isinstance(error, HeadraceError):
        return "defect"
    return next((code for code, kind in _ERRORS.items() if isinstance(error, kind)), "storage")


def copy_remotely(
    connection: Connection, call: CopyCall, moved: Callable[[int], None]
) -> tuple[ChunkDone, ...]:
    """Have an agent copy chunks and return what was done, in their order.

    Args:
        connection: To the agent, for this thread; it is closed after a failure.
        call: The chunks.
        moved: Told once a second, and at the end, how many more bytes were asked of the source.
            What it raises ends the copy.

    Raises:
        StaleError, CorruptDataError, CallerError, StorageError: as ``copy_chunk``.
        RefusedError: the agent copies nothing, or not between these stores.
        AgentUnavailableError: it is busy, or died; what was done stays staged.
        DeadlineError: it was silent for ``SILENCE_S``.
    """
    try:
        connection.send("POST", "/v1/copies", msgspec.json.encode(call))
        return _followed(connection, connection.receive(), moved)
    except BaseException:
        connection.close()
        raise


def _followed(
    connection: Connection, answer: Answer, moved: Callable[[int], None]
) -> tuple[ChunkDone, ...]:
    connection.set_read_timeout(SILENCE_S)
    told = 0
    while True:
        progress = _next(answer)
        moved(progress.moved_bytes - told)
        told = progress.moved_bytes
        if progress.error:
            raise _error(progress)
        if progress.done is not None:
            return progress.done


def _error(progress: CopyProgress) -> HeadraceError:
    known = _ERRORS.get(progress.code)
    return known(progress.error) if known else RefusedError(progress.error, code=progress.code)


def _next(answer: Answer) -> CopyProgress:
    (length,) = LENGTH.unpack(_exactly(answer, LENGTH.size))
    if length > _MOST_BYTES:
        raise ProtocolError(f"a message of {length} B; is the agent of this version?")
    try:
        return msgspec.json.decode(_exactly(answer, length), type=CopyProgress)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"not the progress of a copy: {error}") from error


def _exactly(answer: Answer, count: int) -> bytearray:
    data = bytearray(count)
    if answer.readinto(memoryview(data)) < count:
        raise AgentUnavailableError(
            "the agent broke off while it copied; have the chunks copied elsewhere"
        )
    return data
