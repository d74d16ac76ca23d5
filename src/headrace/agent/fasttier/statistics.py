"""What the fast tier tells about itself."""

from __future__ import annotations

import msgspec


class FastTierStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the start, levels now."""

    off: str
    """Why it is not used any more; empty while it is."""

    budget_bytes: int
    used_bytes: int
    memory_budget_bytes: int
    """Part of the budget that lies in memory [bytes]."""

    memory_used_bytes: int
    samples: int
    """Samples kept now."""

    hits: int
    """Reads whose bytes came from here."""

    misses: int
    """Reads whose bytes came from where the dataset lies."""

    hit_bytes: int
    memory_hits: int
    """Of the hits, those out of memory."""

    memory_hit_bytes: int
    miss_bytes: int
    stored: int
    """Copies made."""

    stored_bytes: int
    declined: int
    """Samples not kept: everything kept is needed before them."""

    evicted: int
    """Samples that went for others that are needed sooner."""

    runs: int
    """Long reads made instead of many scattered ones."""

    run_bytes: int
    """Bytes of those, gaps included [bytes]."""

    run_samples: int
    """Samples copied from them."""

    runs_failed: int
    """Long reads that failed: their samples were read one by one."""

    corrupt: int
    """Copies that were not what had been written; the originals were read instead."""
