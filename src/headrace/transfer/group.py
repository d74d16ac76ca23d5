"""Copies many small chunks as one piece of work, so that their round trips overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.checkpoint.manifest import CHUNK_BYTES
from headrace.storage.port import Storage
from headrace.transfer.chunk import PIECE_BYTES, ChunkDone, ChunkTask, Take, copy_chunk
from headrace.transfer.parallel import in_parallel

GROUP_TASKS = 128
"""Most small chunks that are handed out as one."""

PARALLEL = 8
"""Chunks of a group that are copied at the same time."""


def grouped(
    tasks: Iterable[ChunkTask], *, most_bytes: int = CHUNK_BYTES, most_tasks: int = GROUP_TASKS
) -> Iterator[tuple[ChunkTask, ...]]:
    """Yield the tasks in groups, so that small files are handed out many at a time.

    Args:
        tasks: In the order in which they are to be done.
        most_bytes: Of a group; a task that is larger is a group of its own.
        most_tasks: Of a group.
    """
    group: list[ChunkTask] = []
    nbytes = 0
    for task in tasks:
        if group and (nbytes + task.length > most_bytes or len(group) == most_tasks):
            yield tuple(group)
            group, nbytes = [], 0
        group.append(task)
        nbytes += task.length
    if group:
        yield tuple(group)


def copy_group(
    tasks: Sequence[ChunkTask],
    source: Storage,
    destination: Storage,
    take: Take,
    *,
    piece_bytes: int = PIECE_BYTES,
) -> tuple[ChunkDone, ...]:
    """Copy the chunks of a group, several at a time, and return what was done in their order.

    Args:
        tasks: All of the same two stores.
        source: As for ``copy_chunk``, as are the others; ``take`` is called by several threads.
        destination: The other store.
        take: Called before each piece is read from the source.
        piece_bytes: Most that is read at once, for each chunk.

    Raises:
        As ``copy_chunk``: the first failure, once none of the others runs any more. What was
        done stays staged.
    """

    def copy(task: ChunkTask) -> ChunkDone:
        return copy_chunk(task, source, destination, take, piece_bytes=piece_bytes)

    return tuple(in_parallel(copy, tasks, width=PARALLEL))
