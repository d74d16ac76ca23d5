"""How much of a job's work an agent can take: a number that clients place samples by.

The CPU that others leave changes all the time; the weight must not, for with each change
samples move to other agents, and for a while clients and agents disagree about whose they
are. So the share of its workers that an agent can use is smoothed, rounded to powers of
two, and believed to have changed only once it is well past the middle to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log2

from headrace.core.errors import ConfigError
from headrace.policy.guard import CpuReading, GuardDecision

LEVELS = 5
"""Halvings of the weight that are told apart: the least is 1/16 of the most."""

PER_CORE = 4
"""Weight of one core of which an agent has a sixteenth."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightLimits:
    """How quickly an agent's weight follows what it can do."""

    smoothing_s: float = 5.0
    """Time constant of the smoothing [s]."""

    margin: float = 0.75
    """Levels, that is powers of two, that it must be off before the weight follows."""

    stop_share: float = 0.80
    """Share of the CPU that workers fill up at most, as the guard's."""

    def __post_init__(self) -> None:
        if not 0.5 < self.margin <= 1 or not self.smoothing_s >= 0:
            raise ConfigError(
                f"weight.margin={self.margin:g} must lie in (0.5, 1], weight.smoothing_s="
                f"{self.smoothing_s:g} must not be negative"
            )


class Weighing:
    """Turns looks at the CPU into one agent's weight."""

    def __init__(self, workers: int, limits: WeightLimits | None = None) -> None:
        self._workers = workers
        self._limits = limits or WeightLimits()
        self._seen_at: float | None = None
        self._share = 1.0
        self._level = LEVELS - 1
        self._cores = 0.0

    @property
    def weight(self) -> int:
        """What the agent tells; at least 1."""
        return max(round(PER_CORE * self._cores), 1) << self._level if self._workers else 1

    def observe(self, reading: CpuReading, decision: GuardDecision, now: float) -> int:
        """Take in one look at the CPU and the guard's word on it; return the weight.

        Args:
            reading: Use since the look before.
            decision: What the guard made of it.
            now: Monotonic time of this look [s].
        """
        limits = self._limits
        self._cores = min(self._workers, limits.stop_share * reading.capacity_cores)
        if self._cores > 0:
            left = (limits.stop_share - decision.others) * reading.capacity_cores
            usable = min(max(left, 0.0), self._cores) if decision.transform else 0.0
            self._share += self._trust(now) * (usable / self._cores - self._share)
            self._follow()
        return self.weight

    def _follow(self) -> None:
        """Move to the level that the share is nearest to, if it is far from the present one."""
        exact = LEVELS - 1 + log2(max(self._share, 2.0 ** (1 - LEVELS)))
        if abs(exact - self._level) >= self._limits.margin:
            self._level = round(exact)

    def _trust(self, now: float) -> float:
        elapsed = 0.0 if self._seen_at is None else max(0.0, now - self._seen_at)
        self._seen_at = now
        if self._limits.smoothing_s == 0:
            return 1.0
        return 1.0 - exp(-elapsed / self._limits.smoothing_s)
