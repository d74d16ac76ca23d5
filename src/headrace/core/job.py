"""What a job will read, as plain data: the part of the schedule that travels.

Trainers and storage build the same schedule from the same ``JobSpec``. It is JSON on
the wire and holds no code.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.digest import name_digest
from headrace.core.errors import ConfigError

Order = Literal["shuffle", "block", "sequential"]
Tail = Literal["drop", "short", "pad"]


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One dataset of a job."""

    url: str
    """Where the files are, as the job names it (a path, ``file:``, later ``hdfs://`` …)."""

    index_digest: str
    """Digest of the index that the job was planned with; another index is another dataset."""

    samples: int
    """Number of samples in that index."""

    weight: float = 1.0
    """Share of this source in a mixture, relative to the other weights."""

    index: str = ""
    """URL of the folder that the index lies in; empty: where the files are."""


MOST_BATCH = 1 << 24
"""Largest global batch: its order is held in memory, by agents as well [samples]."""

MOST_EPOCH = 1 << 53
"""Longest epoch [samples]."""

MAX_STEP = 1 << 53
"""Largest step that a job may start at."""


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the samples are ordered and cut into global batches."""

    seed: int
    """Seed of the order and of every sample's randomness."""

    batch_size: int
    """Samples in one global batch, over all ranks."""

    order: Order = "shuffle"
    """``shuffle`` whole range; ``block`` blocks, then inside groups of blocks; ``sequential``."""

    block: int = 1024
    """Samples per block in ``block`` order: neighbours in the index, so neighbours on disk."""

    mix: int = 8
    """Blocks that are shuffled into each other in ``block`` order."""

    tail: Tail = "drop"
    """An epoch's last incomplete batch: left out, delivered short, or filled from its start."""

    epoch_samples: int | None = None
    """Length of one epoch [samples]; None is the sum of all sources."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "block", "mix"):
            if getattr(self, name) < 1:
                raise ConfigError(f"schedule.{name}={getattr(self, name)} must be at least 1")
        if not -(1 << 63) <= self.seed < 1 << 64:
            raise ConfigError(f"schedule.seed={self.seed} must fit into 64 bits")
        if self.batch_size > MOST_BATCH:
            raise ConfigError(f"schedule.batch_size={self.batch_size} must be at most {MOST_BATCH}")
        if self.epoch_samples is not None and not 1 <= self.epoch_samples <= MOST_EPOCH:
            raise ConfigError(
                f"schedule.epoch_samples={self.epoch_samples} must be at least 1 and at most "
                f"{MOST_EPOCH}"
            )


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides which samples a job sees, their order, and what is done to them.

    ``run`` alone decides nothing of that.
    """

    sources: tuple[SourceSpec, ...]
    schedule: ScheduleSpec
    pipeline: str
    """The pipeline as its canonical JSON text."""

    on_corrupt: Literal["substitute", "drop-from-batch", "raise"] = "substitute"
    """What takes the place of a sample that cannot be decoded."""

    run: str = ""
    """Tells this run from others of the same data path; equal on every rank."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise ConfigError("a job needs at least one source; name a dataset URL")

    @property
    def id(self) -> str:
        """Digest that names a run of a data path at agents and controllers; equal on all ranks."""
        return name_digest(msgspec.json.encode(self))

    @property
    def data_path(self) -> str:
        """Digest that all runs of the same data path have in common."""
        return msgspec.structs.replace(self, run="").id
