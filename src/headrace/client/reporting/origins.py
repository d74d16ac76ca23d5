"""What is known of where a job's bytes lie, from what agents said of those they read."""

from __future__ import annotations

from headrace.client.reporting.figures import Figures
from headrace.core.media import TierName

UNNAMED = TierName("hdd")
"""The tier of bytes of which nobody says where they were read."""


class Origins:
    """Remembers across reports what a single one may not show."""

    def __init__(self, storage_tier: str | None = None) -> None:
        self._named = storage_tier is not None
        self.direct = UNNAMED if storage_tier is None else TierName(storage_tier)
        """Tier of the host's own reads: the one that was named, or where agents read most of what
        no cache held."""

        self._has_cache = False
        self.hit_rate = 1.0
        """Part of the bytes read last that a cache held, 0 to 1; 1 where there is no cache."""

    def note(self, figures: Figures) -> None:
        """Learn from what was read since the last report."""
        missed = {
            tier: nbytes - figures.hit_bytes.get(tier, 0)
            for tier, nbytes in figures.tier_bytes.items()
            if tier
        }
        most = max(missed, key=lambda tier: missed[tier], default=None)
        if most is not None and missed[most] > 0 and not self._named:
            self.direct = most
        self._has_cache = self._has_cache or figures.cache_bytes > 0
        stored = sum(self.tiers(figures).values())
        if self._has_cache and stored:
            self.hit_rate = sum(figures.hit_bytes.values()) / stored

    def tiers(self, figures: Figures) -> dict[TierName, int]:
        """Return the stored bytes of each tier, the host's own reads among them."""
        total = {self.direct: figures.direct_bytes}
        for tier, nbytes in figures.tier_bytes.items():
            total[tier or self.direct] = total.get(tier or self.direct, 0) + nbytes
        return {tier: nbytes for tier, nbytes in total.items() if nbytes}
