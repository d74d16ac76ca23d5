"""What ranks are told to do, and what they answer: messages between a benchmark and its crew."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from bench.checkpoints.model import Model

Reader = Literal["fsspec", "headrace"]
READERS: tuple[Reader, ...] = get_args(Reader)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rank runs."""

    host: str
    """What the host is called."""

    namespace: str
    """File of its network namespace."""

    groups: tuple[str, ...]
    """Directories of its control group."""

    scratch: str
    """Directory for temporary files."""


class Save(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Save the state with ``torch.distributed.checkpoint``."""

    folder: str


class Load(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load it from a barrier on."""

    url: str
    reader: Reader
    """``FsspecReader`` or ``headrace.torch.CheckpointReader``."""

    options: dict[str, Any] = {}
    """Of the reader."""

    with_optimizer: bool = True


class SaveTensors(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Save the whole model as safetensors in some files, with an index; by one rank."""

    folder: str
    files: int


class LoadTensors(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load that, by one rank."""

    url: str
    reader: Reader
    """fsspec and safetensors, or ``headrace.safetensors.load_file``."""


Work = Save | Load | SaveTensors | LoadTensors


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One job of some ranks."""

    model: Model
    places: tuple[Place | None, ...]
    """Of each rank; None: where the crew is."""

    mesh: tuple[int, ...]
    """Shape of the ranks' mesh; the last dimension shards."""

    rendezvous: str
    """``HOST:PORT`` where rank 0 lets the others find each other."""

    work: Work
    longest_s: float = 120.0
    """Ranks that take longer are ended [s]."""


class RankDone(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank did."""

    rank: int
    begin_s: float = 0.0
    """When it left the barrier, on the machine's monotonic clock [s]."""

    end_s: float = 0.0
    cpu_s: float = 0.0
    """Its CPU in between [s]."""

    nbytes: int = 0
    """Of its state."""

    unequal: tuple[str, ...] = ()
    """Tensors that differ from what was saved."""

    statistics: dict[str, Any] = {}
    """Of headrace's reader."""

    error: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What an order came to."""

    ranks: tuple[RankDone, ...]

    @property
    def error(self) -> str:
        """Of the first rank that failed; empty if none did."""
        return next((f"rank {one.rank}: {one.error}" for one in self.ranks if one.error), "")

    @property
    def wall_s(self) -> float:
        """From the barrier to the slowest rank's end [s]."""
        return max(one.end_s for one in self.ranks) - min(one.begin_s for one in self.ranks)
