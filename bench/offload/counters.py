"""What the cluster's hosts used up, as totals that only grow, and what of it falls into a span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

TRAINER, AGENTS, DATANODES, BACKGROUND, STORAGE = (
    "trainer",
    "agents",
    "datanodes",
    "background",
    "storage",
)
"""Whose CPU is counted: all of the trainer host; three kinds of processes on the storage hosts,
and all of these hosts."""

GROUPS = (TRAINER, AGENTS, DATANODES, BACKGROUND, STORAGE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """One reading."""

    at_s: float
    """On the machine's monotonic clock [s]."""

    cpu_s: dict[str, float]
    """Group → CPU time since it was first looked at [s]."""

    trainer_bytes: int
    """Received by the trainer host since it was made [bytes]."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in a span of time."""

    seconds: float
    cpu_s: dict[str, float]
    """Group → CPU time [s]."""

    trainer_bytes: float
    """Received by the trainer host [bytes]."""

    def cores(self, group: str) -> float:
        """Return how many cores a group kept busy."""
        return self.cpu_s[group] / self.seconds if self.seconds else 0.0


def use_between(readings: Sequence[Counters], begin_s: float, end_s: float) -> Use:
    """Return what was used between two moments; readings in between are interpolated."""
    at = np.array([one.at_s for one in readings])

    def grown(values: list[float]) -> float:
        low, high = np.interp([begin_s, end_s], at, values)
        return float(high - low)

    return Use(
        seconds=end_s - begin_s,
        cpu_s={group: grown([one.cpu_s[group] for one in readings]) for group in GROUPS},
        trainer_bytes=grown([float(one.trainer_bytes) for one in readings]),
    )


def added(parts: Sequence[Use]) -> Use:
    """Add up spans."""
    return Use(
        seconds=sum(part.seconds for part in parts),
        cpu_s={group: sum(part.cpu_s[group] for part in parts) for group in GROUPS},
        trainer_bytes=sum(part.trainer_bytes for part in parts),
    )
