"""When upcoming reads from hard disks are worth merging into sequential runs.

Moving blocks ahead of reading costs bandwidth itself, so it begins only when a job has been
badly off for some time, and ends once it has been well for some time.

Source: elastic reservation report, row B5 (below 30 for more than 3 iterations).
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class ReorderLimits:
    """When reordering begins and ends."""

    start_below: float = 30.0
    """Scores below this count towards a start."""

    start_after: int = 3
    """It starts when more iterations than this in a row were below."""

    stop_above: float = 60.0
    """Scores above this count towards the end."""

    stop_after: int = 3
    """It ends when more iterations than this in a row were above."""

    least_hdd: float = 0.05
    """Smallest part of a job's bytes from hard disks that is worth it."""

    def __post_init__(self) -> None:
        if not 0 <= self.start_below < self.stop_above <= 100:
            raise ConfigError(
                f"reorder.start_below={self.start_below:g} must lie below reorder.stop_above="
                f"{self.stop_above:g}, both in 0 to 100, or it would start and stop in turns"
            )
        if min(self.start_after, self.stop_after) < 0:
            raise ConfigError("reorder.start_after and stop_after must not be negative")
        if not 0 <= self.least_hdd <= 1:
            raise ConfigError(f"reorder.least_hdd={self.least_hdd:g} must lie in 0 to 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReorderDecision:
    """Whether a job's reads are reordered from now on."""

    enabled: bool
    changed: bool
    """It was otherwise before this iteration."""

    reason: str
    """Why it changed; empty if it did not."""


class Reordering:
    """One job's decision; keeps how long it has been badly off, or well."""

    def __init__(self, limits: ReorderLimits | None = None) -> None:
        self._limits = limits or ReorderLimits()
        self.enabled = False
        """Whether reads are reordered."""

        self._below = 0
        self._above = 0

    def observe(self, score: float, *, hdd_share: float) -> ReorderDecision:
        """Take in one iteration and decide.

        Args:
            score: The job's health, 0 to 100.
            hdd_share: Part of its bytes that came from hard disks, 0 to 1.
        """
        limits = self._limits
        on_disk = hdd_share >= limits.least_hdd
        self._below = self._below + 1 if score < limits.start_below and on_disk else 0
        self._above = self._above + 1 if score > limits.stop_above or not on_disk else 0
        if not self.enabled and self._below > limits.start_after:
            return self._switch(f"score below {limits.start_below:g} for {self._below} iterations")
        if self.enabled and self._above > limits.stop_after:
            why = f"score above {limits.stop_above:g}" if on_disk else "hardly a byte from disks"
            return self._switch(f"{why} for {self._above} iterations")
        return ReorderDecision(enabled=self.enabled, changed=False, reason="")

    def _switch(self, reason: str) -> ReorderDecision:
        self.enabled = not self.enabled
        self._below = self._above = 0
        return ReorderDecision(enabled=self.enabled, changed=True, reason=reason)
