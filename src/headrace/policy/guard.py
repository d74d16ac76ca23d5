"""Keeps transforms out of the way of whoever else needs the storage host's CPU.

The agent's workers run at low priority, so their own use hurts nobody: what others use
decides whether to stop. Up to the threshold the workers get what others leave of it,
above it they stop and the agent serves raw bytes, and they come back only once others
have gone well below it.

Source: the original's load-aware fallback, row A7 (80 % is the safe threshold).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardLimits:
    """When the guard stops transforms, and how quickly it believes what it sees."""

    stop_share: float = 0.80
    """Others' share of the CPU above which transforms stop; workers fill up to it at most."""

    resume_share: float = 0.70
    """Others' share of the CPU below which transforms come back."""

    smoothing_s: float = 0.3
    """Time constant of the smoothing [s]. With 0.3 and ten looks a second, others who take
    everything stop transforms in 0.5 s, or in 0.7 s while workers still get a tenth."""

    def __post_init__(self) -> None:
        if not 0 < self.resume_share <= self.stop_share <= 1:
            raise ConfigError(
                f"guard.resume_share={self.resume_share:g} and guard.stop_share="
                f"{self.stop_share:g} must lie in (0, 1], resume not above stop"
            )
        if self.smoothing_s < 0:
            raise ConfigError(f"guard.smoothing_s={self.smoothing_s:g} s must not be negative")


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuReading:
    """What was used since the look before, on the CPUs that the agent may use."""

    capacity_cores: float
    """Cores that may be used: the affinity set or, if smaller, the control group's quota."""

    others_cores: float
    """Cores wanted by everyone else."""

    own_cores: float
    """Cores used by the agent and its workers."""

    held_back: bool = False
    """A quota kept tasks waiting: it does not tell whose, and niceness does not help there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardDecision:
    """What the agent may do until the next look."""

    transform: bool
    """False: start no transforms, answer with raw bytes what is not prepared."""

    workers: int
    """Transforms that may run at once; 0 when none may start."""

    others: float
    """Others' share of the capacity, smoothed."""

    total: float
    """Everyone's share of the capacity, smoothed."""

    reason: str
    """Why fewer than all workers may run, in words for a person; empty otherwise."""


class Guard:
    """Turns looks at the CPU into decisions; keeps the smoothed shares and whether it tripped."""

    def __init__(self, workers: int, limits: GuardLimits | None = None) -> None:
        if workers < 1:
            raise ConfigError(f"a guard over {workers} workers has nothing to allow; give it 1")
        self._workers = workers
        self._limits = limits or GuardLimits()
        self._seen_at: float | None = None
        self._others = 0.0
        self._own = 0.0
        self._tripped = False

    def observe(self, reading: CpuReading, now: float) -> GuardDecision:
        """Take in one look at the CPU and decide.

        Args:
            reading: Use since the look before.
            now: Monotonic time of this look [s].
        """
        trust = self._trust(now)
        self._others += trust * (reading.others_cores / reading.capacity_cores - self._others)
        self._own += trust * (reading.own_cores / reading.capacity_cores - self._own)
        limit = self._limits.resume_share if self._tripped else self._limits.stop_share
        self._tripped = self._others > limit
        workers = 0 if self._tripped else self._allowed(reading)
        return GuardDecision(
            transform=not self._tripped,
            workers=workers,
            others=self._others,
            total=self._others + self._own,
            reason=self._reason(workers, reading.capacity_cores),
        )

    def _trust(self, now: float) -> float:
        """Return the weight of the newest look: 1 for the first, more the longer it covers."""
        elapsed = None if self._seen_at is None else max(0.0, now - self._seen_at)
        self._seen_at = now
        if elapsed is None or self._limits.smoothing_s == 0:
            return 1.0
        return 1.0 - exp(-elapsed / self._limits.smoothing_s)

    def _allowed(self, reading: CpuReading) -> int:
        """Return how many workers fill what others leave of the threshold.

        What is left is rarely a whole number of cores. It is rounded up, for workers yield to
        others; but not while a quota holds tasks back, for then nobody yields: the last worker
        pauses until its use, on average, is what is left.
        """
        left_cores = (self._limits.stop_share - self._others) * reading.capacity_cores
        if reading.held_back and self._own * reading.capacity_cores > left_cores:
            return min(self._workers, int(left_cores))
        return max(1, min(self._workers, ceil(left_cores)))

    def _reason(self, workers: int, capacity_cores: float) -> str:
        others = f"others use {self._others:.0%} of {capacity_cores:g} cores"
        if self._tripped:
            return (
                f"{others}: transforms stopped above {self._limits.stop_share:.0%} and come back "
                f"below {self._limits.resume_share:.0%}"
            )
        if workers < self._workers:
            return (
                f"{others}: {workers} of {self._workers} workers keep the CPU at or under "
                f"{self._limits.stop_share:.0%}"
            )
        return ""
