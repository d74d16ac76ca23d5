"""How much is measured: the full run, and a quick one of the same method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.checkpoints.model import Model

KIB, MIB = 1 << 10, 1 << 20
FULL = Model(layers=64, width=256, rows=208, vocabulary=8_192)
"""705 tensors of 39 MB, and three times as many of the optimizer, which evaluation leaves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Sizes of a run."""

    model: Model = FULL
    saving_ranks: int = 4
    ranks_per_host: int = 4
    """Each holds the whole model, and would answer other questions than the others."""

    repeats: int = 3
    caches: tuple[tuple[str, int], ...] = (
        ("blockcache", 4 * MIB),
        ("blockcache", 1 * MIB),
    )
    """Caches of fsspec that are tried for the baseline, and how much they read at once. Others
    were slower: ``readahead`` of 4 MiB took 130 s, as it reads the optimizer's state along."""

    longest_s: float = 120.0
    """Of one load [s]."""

    copy_workers: tuple[int, ...] = (4, 8)
    """Of the file copy, which are tried; a checkpoint has hardly more files."""

    copy_repeats: int = 1
    copying_s: float = 120.0
    """Longest wait for a copy [s]."""

    budget_bytes_per_s: int = 6_000_000
    """Of the replication, while an urgent checkpoint and others are on their way [B/s]."""

    urgent: bool = True
    """Whether that is measured."""

    others: int = 2
    """Checkpoints that are on their way when an urgent one is saved."""


QUICK = Scale(
    model=Model(layers=16, width=256, rows=64, vocabulary=4_096),
    repeats=1,
    caches=(("blockcache", 1 * MIB),),
    longest_s=60.0,
    copy_workers=(4,),
    copy_repeats=1,
    copying_s=60.0,
    urgent=False,
)
"""Ends within a minute: a smaller model and one repeat, the same method."""


def tried(scale: Scale) -> dict[str, dict[str, Any]]:
    """Return the settings of the baseline that are tried: name → options of the reader."""
    return {
        f"{cache} {nbytes // KIB} KiB": {"cache": cache, "block_bytes": nbytes}
        for cache, nbytes in scale.caches
    }
