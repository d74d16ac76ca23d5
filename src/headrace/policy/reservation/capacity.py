"""What a tier really gives: less than its nominal bandwidth while others congest it.

Quotas beyond what a congested link delivers only move the queue into the link, where nobody
can order it. So the capacity that is divided follows what is delivered: downward while a job
that suffers congestion cannot even use its quota, upward otherwise. Too much is handed out
rather than too little: the first only costs the order, the second costs bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityLimits:
    """How a tier's effective capacity is followed."""

    headroom: float = 0.25
    """Handed out beyond what is delivered, so that it shows when more can be delivered."""

    unused: float = 0.1
    """Part of its quota that a congested job leaves unused if the tier, not the quota, holds
    it up."""

    fall: float = 0.5
    """Gain towards what is delivered, per round."""

    rise_per_s: float = 0.05
    """Part of the nominal bandwidth that is probed upward each second while nobody is held up."""

    least: float = 0.1
    """Part of the nominal bandwidth below which capacity is never reckoned, 0 to 1."""

    def __post_init__(self) -> None:
        if not 0 < self.unused < 1:
            raise ConfigError(f"capacity.unused={self.unused:g} must lie in (0, 1)")
        if self.headroom <= 0 or self.rise_per_s <= 0 or not 0 < self.fall <= 1:
            raise ConfigError(
                f"capacity.headroom={self.headroom:g} and rise_per_s={self.rise_per_s:g} must be"
                f" above 0, capacity.fall={self.fall:g} in (0, 1]"
            )
        if not 0 < self.least <= 1:
            raise ConfigError(f"capacity.least={self.least:g} must lie in (0, 1]")


class Capacity:
    """One tier's bandwidth, as it is announced and as it is."""

    def __init__(self, bytes_per_s: float, limits: CapacityLimits) -> None:
        self.nominal = bytes_per_s
        """As announced [B/s]."""
        self.effective = bytes_per_s
        """What is divided [B/s]."""
        self._limits = limits

    def change(self, bytes_per_s: float) -> None:
        """Take another nominal bandwidth; the effective one keeps its part of it."""
        self.effective *= bytes_per_s / self.nominal
        self.nominal = bytes_per_s

    def observe(self, delivered: float, *, is_held_up: bool, elapsed_s: float) -> None:
        """Follow what the tier delivered since the call before.

        Args:
            delivered: Read by all jobs together [B/s].
            is_held_up: A job that suffers congestion there cannot use its quota.
            elapsed_s: Time since the call before [s].
        """
        limits = self._limits
        if is_held_up:
            seen = max(delivered * (1.0 + limits.headroom), limits.least * self.nominal)
            self.effective += limits.fall * (min(seen, self.nominal) - self.effective)
        else:
            risen = self.effective + limits.rise_per_s * elapsed_s * self.nominal
            self.effective = min(risen, self.nominal)
