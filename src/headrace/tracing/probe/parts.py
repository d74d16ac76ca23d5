"""Divides the time of a load into its parts, by what was seen of it. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What was seen of one load."""

    took_ns: int
    opening_ns: int
    """Opening files [ns]."""

    reading_ns: int
    """Reading them, as far as hooks saw it [ns]."""

    collating_ns: int
    """Making a batch of samples [ns]."""

    cpu_ns: int
    """CPU the loading thread took, and how long it waited for one [ns]."""

    unseen_bytes: int
    """Read by the thread without a hook that saw it, as far as is known [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a load; together they are the whole of it [ns]."""

    metadata: int
    retrieval: int
    transformation: int
    overhead: int


def parts_of(seen: Seen) -> Parts:
    """Return the parts of a load.

    What is neither opening nor reading is transformation while the thread computed, and collating
    is overhead. What it slept is retrieval where bytes came in that no hook saw (a decoder's own
    reading), else overhead (locks, sockets, other threads).
    """
    work = max(0, seen.took_ns - seen.opening_ns - seen.reading_ns)
    computed = min(work, seen.cpu_ns)
    slept = work - computed
    collating = min(seen.collating_ns, computed)
    slept_reading = slept if seen.unseen_bytes else 0
    return Parts(
        metadata=seen.opening_ns,
        retrieval=seen.reading_ns + slept_reading,
        transformation=computed - collating,
        overhead=collating + slept - slept_reading,
    )
