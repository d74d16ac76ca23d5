"""What is known of where a job's bytes lie, from what agents said of those they read."""

from __future__ import annotations

from headrace.client.reporting.figures import Figures
from headrace.core.media import TierName

UNNAMED = TierName("hdd")
"""The tier of bytes of which nobody says where they were read."""


class Origins:
    """Remembers across reports what a single one may not show."""

    def __init__(self) -> None:
        self.direct: TierName = UNNAMED
        """Tier of the host's own reads: where agents read most of what no cache held."""

        self.has_cache = False
        """Whether an agent ever read from a cache for this host."""

    def note(self, figures: Figures) -> None:
        """Learn from what was read since the last report."""
        missed = {
            tier: nbytes - figures.hit_bytes.get(tier, 0)
            for tier, nbytes in figures.tier_bytes.items()
            if tier
        }
        most = max(missed, key=lambda tier: missed[tier], default=None)
        if most is not None and missed[most] > 0:
            self.direct = most
        self.has_cache = self.has_cache or any(figures.hit_bytes.values())

    def tiers(self, figures: Figures) -> dict[TierName, int]:
        """Return the stored bytes of each tier, the host's own reads among them."""
        total = {self.direct: figures.direct_bytes}
        for tier, nbytes in figures.tier_bytes.items():
            total[tier or self.direct] = total.get(tier or self.direct, 0) + nbytes
        return {tier: nbytes for tier, nbytes in total.items() if nbytes}

    def hit_rate(self, figures: Figures) -> float:
        """Return the part of the bytes that a cache held, 0 to 1; 1 where there is no cache."""
        stored = sum(self.tiers(figures).values())
        if not self.has_cache or not stored:
            return 1.0
        return sum(figures.hit_bytes.values()) / stored
