"""How much is measured: the full run, and a quick one of the same method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.checkpoints.model import Model

KIB = 1 << 10
FULL = Model(layers=4, width=1024, rows=480, vocabulary=12_288)
"""98 MB in shards, most of it the optimizer's, and 25 MB that every rank holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Sizes of a run."""

    model: Model = FULL
    ranks_per_host: int = 4
    repeats: int = 3
    caches: tuple[tuple[str, int], ...] = (
        ("blockcache", 256 * KIB),
        ("readahead", 64 * KIB),
        ("readahead", 256 * KIB),
    )
    """Caches of fsspec that are tried for the baseline, and how much they read at once."""

    simplecache: bool = True
    """Whether copies of whole files on the local disk are tried as well."""

    longest_s: float = 150.0
    """Of one load [s]."""

    eta_s: float = 10.0
    """How long before the load the checkpoint is announced [s]."""

    ready_s: float = 60.0
    """Longest wait until copies are made [s]."""

    further: bool = True
    """Whether ablations are run, and the premise is turned off."""


QUICK = Scale(
    model=Model(layers=2, width=1024, rows=160, vocabulary=3_072),
    repeats=1,
    caches=(("blockcache", 256 * KIB),),
    simplecache=False,
    longest_s=60.0,
    further=False,
)
"""Ends within a minute: a smaller state and one repeat, the same method."""


def tried(scale: Scale) -> dict[str, dict[str, Any]]:
    """Return the settings of the baseline that are tried: name → prefix of the URL and options."""
    found: dict[str, dict[str, Any]] = {
        f"{cache} {nbytes // KIB} KiB": {"options": {"cache": cache, "block_bytes": nbytes}}
        for cache, nbytes in scale.caches
    }
    if scale.simplecache:
        found["whole files on disk"] = {"prefix": "simplecache::"}
    return found
