"""A labelled job as it is modelled: its work, its hardware, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Spell:
    """Others take part of a resource, from one moment to another."""

    begin_s: float
    end_s: float
    left: float
    """Part that they leave, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The job, its hardware, and what goes wrong."""

    seed: int = 0
    hosts: int = 2
    ranks_per_host: int = 2
    steps: int = 120
    step_s: float = 0.5
    batch: int = 4
    """Samples."""

    workers: int = 2
    """Of a rank, each of which prepares a batch."""

    queue: int = 4
    """Batches that may lie ready or be in preparation."""

    dataset: int = 1_000_000
    """Samples that a rank goes through before it reads one again."""

    sample_bytes: float = 1e6
    size_spread: float = 0.3
    """Sigma of the logarithm."""

    request_bytes: float = 4e6
    round_trip_s: float = 0.5e-3
    jitter: float = 0.15
    """Sigma of the logarithm of a round trip."""

    disks: int = 4
    disk_bytes_per_s: float = 200e6
    seek_s: float = 0.0
    cache_samples: int = 0
    """That the page cache holds."""

    is_warm: bool = False
    """Whether the page cache holds the dataset from the start."""

    link_bytes_per_s: float = 5e9
    lookups: int = 1
    """Questions to the metadata server about a sample."""

    lookup_s: float = 50e-6
    """Time that the metadata server works on one."""

    cores: int = 8
    """Of a host, for transforms."""

    transform_s: float = 0.02
    """Of a sample of the mean size, on a core."""

    slow_host: float = 1.0
    """How much longer transforms take on the last host."""

    slow_link: float = 1.0
    """How much longer its reads take."""

    checkpoint_bytes: float = 0.0
    """That each rank reads at the start, and saves."""

    reads_checkpoint: bool = False
    save_every: int = 0
    """Steps; 0: never."""

    first_reads: float = 1.0
    """How much longer requests take at the start …"""

    first_bytes: float = 0.0
    """… until so much was read [bytes]."""

    on_disks: tuple[Spell, ...] = ()
    on_link: tuple[Spell, ...] = ()
    on_cores: tuple[Spell, ...] = ()
    scans: tuple[Spell, ...] = ()
    """Others read through the page cache; ``left`` is the part of it that stays."""

    grows_at: int = 0
    """From this step on the job goes through ``grown`` times as many samples."""

    grown: int = 1
    parts: bool = True
    """Whether the trace tells the parts of loads."""

    tells_cached: bool = False
    """Whether loads tell how many of their bytes a cache held."""

    requests: bool = True
    barriers: bool = False
    queues: bool = False
    """Whether requests tell how long they waited."""

    @property
    def ranks(self) -> int:
        """Of the job."""
        return self.hosts * self.ranks_per_host
