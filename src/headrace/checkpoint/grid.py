"""How Megatron and DeepSpeed number the ranks of tensor, data and pipeline parallel jobs.

Tensor parallel ranks are neighbours, then come data parallel ones, then pipeline stages: rank
``(stage * data + replica) * tensors + tensor``. Source: ``megatron.core.parallel_state``,
``deepspeed.runtime.pipe.topology.PipeModelDataParallelTopology``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.errors import CallerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The ranks of a job."""

    tensors: int
    """Tensor parallel ranks."""

    stages: int
    """Pipeline stages."""

    replicas: int
    """Data parallel ranks."""

    def ranks_of(self, tensor: int, stage: int) -> range:
        """Return the ranks of all replicas of one part of the model, by replica."""
        begin = stage * self.replicas * self.tensors
        return range(begin + tensor, begin + self.replicas * self.tensors, self.tensors)


def grid_of(world_size: int, *, tensors: int, stages: int, path: str) -> Grid:
    """Return the grid of a job that loads a checkpoint with as many parts of the model.

    Args:
        world_size: Ranks of the job.
        tensors: Tensor parallel ranks that the checkpoint was written by.
        stages: Its pipeline stages.
        path: What the checkpoint is called in errors.

    Raises:
        CallerError: the ranks cannot be divided so.
    """
    parts = tensors * stages
    if world_size < 1 or world_size % parts:
        raise CallerError(
            f"{path} was written by {tensors} tensor parallel ranks in {stages} stages; it can be "
            f"loaded by {parts}, {2 * parts}, {3 * parts} … ranks, not by {world_size}"
        )
    return Grid(tensors=tensors, stages=stages, replicas=world_size // parts)


def pairs(first: int, second: int) -> Iterator[tuple[int, int]]:
    """Yield all pairs of numbers below two limits, which names of files tell: a billion is one.

    ``itertools.product`` would hold all numbers in memory before the first pair.
    """
    return ((one, other) for one in range(first) for other in range(second))
