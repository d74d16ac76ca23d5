"""The loader as PyTorch training scripts expect one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch.distributed

from headrace.client.counts import EpochSummary
from headrace.client.loader import Loader as ArrayLoader
from headrace.client.loader import LoaderStatistics
from headrace.client.sources import Urls
from headrace.client.torch.batch import TensorBatch
from headrace.client.torch.memory import batch_memory
from headrace.core.errors import ConfigError
from headrace.transform.explain import KindExplanation


class Loader:
    """Delivers batches of tensors; pinned when a CUDA device is there.

    Rank and world size come from the process group, or from torchrun's environment, unless
    given. ``state_dict`` and ``load_state_dict`` are those of torchdata's ``StatefulDataLoader``:
    taken after batch k, a loader with that state goes on with k + 1. ``batch_size`` counts
    the samples of one optimiser step over *all* ranks, so that a job may resume on another
    world size and see the same batches.
    """

    def __init__(self, urls: Urls, **options: Any) -> None:
        """Open the datasets; arguments and errors are those of :class:`headrace.Loader`."""
        place = {} if "rank" in options or "world" in options else rank_and_world()
        self._loader = ArrayLoader(urls, **{"allocate": batch_memory(), **place, **options})
        self.config = self._loader.config

    def __iter__(self) -> Iterator[TensorBatch]:
        """Begin the next epoch, or go on in the one that a loaded state is in."""
        return map(TensorBatch, self._loader)

    def __len__(self) -> int:
        """Return the number of steps in one epoch."""
        return len(self._loader)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def epoch(self) -> int:
        """The epoch of the step that comes next."""
        return self._loader.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop begin at the start of ``epoch``; a state loaded inside it is kept."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is; equal on all ranks, of constant size."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the state was taken, on this or another world size.

        Raises:
            ConfigError: it is another job's.
        """
        self._loader.load_state_dict(state_dict)

    def summary(self) -> EpochSummary:
        """Return what was delivered of the current epoch."""
        return self._loader.summary()

    def statistics(self) -> LoaderStatistics:
        """Return what goes on now."""
        return self._loader.statistics()

    def explain(self) -> tuple[KindExplanation, ...]:
        """Return what each op costs and where it runs, per kind of sample."""
        return self._loader.explain()

    def close(self) -> None:
        """Stop all threads; may be called again."""
        self._loader.close()


def rank_and_world() -> dict[str, int]:
    """Return this process's rank and world size, from torch.distributed or torchrun.

    Raises:
        ConfigError: the environment contradicts itself.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return {
            "rank": torch.distributed.get_rank(),
            "world": torch.distributed.get_world_size(),
        }
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and world is None:
        return {}
    try:
        return {"rank": int(rank or ""), "world": int(world or "")}
    except ValueError:
        raise ConfigError(
            f"RANK={rank!r} and WORLD_SIZE={world!r} must both be numbers; start the script with "
            "torchrun, or give rank and world"
        ) from None
