"""What is wanted of one replication, and the limits of all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What one replication is to do."""

    once: bool = False
    """Copy what is complete now, all of it, and no more."""

    keep: int | None = None
    """Newest checkpoints that stay at the destination; None: all."""

    replace: bool = False
    """Replace other checkpoints of the same names at the destination."""

    save_every_s: float | None = None
    """Time between saves [s]; None: it is learned."""

    evaluate_every_s: float | None = None
    """Time between evaluations [s]; None: it is learned."""

    evaluate_every_steps: int | None = None
    """Only checkpoints whose step is a multiple are evaluated, and copied; None: any."""

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise ConfigError(f"replication.keep={self.keep} must be 1 or more, or left out")
        if self.evaluate_every_steps is not None and self.evaluate_every_steps < 1:
            raise ConfigError(
                f"replication.evaluate_every_steps={self.evaluate_every_steps} must be 1 or more"
            )
        for name in ("save_every_s", "evaluate_every_s"):
            period = getattr(self, name)
            if period is not None and not 0 < period < math.inf:
                raise ConfigError(f"replication.{name}={period} must be a positive time [s]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationLimits:
    """What all replications of one process share."""

    chunks: int = 16
    """Chunks in flight at once; as many again may be urgent ones."""

    chunk_bytes: int = 2 << 30
    """Most bytes of chunks in flight [bytes]; one chunk is always allowed."""

    stable_s: float = 5.0
    """A file of a checkpoint that is being written counts as closed once it has not changed for
    this long [s]; it is looked at again before anything is published."""

    first_pause_s: float = 1.0
    """Pause after a failure; it doubles with each in a row [s]."""

    longest_pause_s: float = 60.0
    """Longest such pause [s]."""

    wrong_tries: int = 3
    """What arrives wrong so often in a row is given up."""

    once_tries: int = 6
    """Failures in a row after which a replication that is done once gives up."""

    begun_share: float = 0.25
    """What is superseded before this part of it was moved may be left for the newer one."""

    prune_s: float = 60.0
    """What stays at the destination only for its readers is looked at again after this [s]."""

    def __post_init__(self) -> None:
        if self.chunks < 1 or self.chunk_bytes < 1:
            raise ConfigError(
                f"replication.chunks={self.chunks} and chunk_bytes={self.chunk_bytes} must be 1 "
                "or more"
            )
        if not 0 < self.first_pause_s <= self.longest_pause_s < math.inf:
            raise ConfigError(
                f"replication.first_pause_s={self.first_pause_s:g} must be above 0 and at most "
                f"longest_pause_s={self.longest_pause_s:g}"
            )
