"""What a tier really gives: less than its nominal bandwidth while its jobs suffer congestion.

Quotas beyond what a congested link delivers only move the queue into the link, where nobody
can order it. So the capacity that is divided follows what is delivered, and is probed upward
again slowly once nobody is diagnosed any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityLimits:
    """How a tier's effective capacity is followed."""

    headroom: float = 0.15
    """Kept above what is delivered, so that more can be delivered when it can."""

    fall: float = 0.5
    """Gain towards what is delivered, per round."""

    rise_per_s: float = 0.02
    """Part of the nominal bandwidth that is probed upward each second without congestion."""

    least: float = 0.1
    """Part of the nominal bandwidth below which capacity is never reckoned, 0 to 1."""

    def __post_init__(self) -> None:
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

    def observe(self, delivered: float, *, is_congested: bool, elapsed_s: float) -> None:
        """Follow what the tier delivered since the call before.

        Args:
            delivered: Read by all jobs together [B/s].
            is_congested: A job that reads from it is diagnosed so.
            elapsed_s: Time since the call before [s].
        """
        limits = self._limits
        if is_congested:
            seen = max(delivered * (1.0 + limits.headroom), limits.least * self.nominal)
            self.effective += limits.fall * (min(seen, self.nominal) - self.effective)
        else:
            risen = self.effective + limits.rise_per_s * elapsed_s * self.nominal
            self.effective = min(risen, self.nominal)
