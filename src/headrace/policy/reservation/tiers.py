"""One job's bandwidth over several tiers: a regulator each, combined by where the job reads.

Every storage tier's regulator says by how much it would change bandwidth. The job's health
does not tell which tier it suffers on, so their answers are summed, weighted with the parts of
the bytes that are read from each, and the job's whole bandwidth, changed by that, is dealt out
by the same parts. Quotas thereby follow the accesses: of a job that gets more, the tiers get it
that are read more than their quotas say, of one that gives, those give that are read less; at
most a fifth per adjustment each.

A link is crossed by bytes that some storage tier gave, so it takes no part in that sum: it has
a regulator of its own, that works while anything crosses the link.

Source: elastic reservation report, row B6.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.errors import ConfigError
from headrace.core.media import Media, TierName
from headrace.policy.reservation.foresight import FORGOTTEN_PART
from headrace.policy.reservation.media import PROFILES
from headrace.policy.reservation.regulator import (
    Adjustment,
    Gains,
    Regulator,
    RegulatorLimits,
)


class AccessSplit:
    """Parts of a job's bytes by tier, smoothed; storage tiers sum to 1, each link stands alone."""

    def __init__(self, *, smoothing: float = 0.3) -> None:
        if not 0 < smoothing <= 1:
            raise ConfigError(f"split smoothing={smoothing:g} must lie in (0, 1]")
        self._smoothing = smoothing
        self._parts: dict[TierName, float] | None = None

    def observe(self, split: Mapping[TierName, float]) -> None:
        """Take in one iteration's parts; an empty one (nothing was read) teaches nothing."""
        if not split:
            return
        if self._parts is None:
            self._parts = dict(split)
            return
        for tier in self._parts.keys() | split.keys():
            old = self._parts.get(tier, 0.0)
            self._parts[tier] = old + self._smoothing * (split.get(tier, 0.0) - old)
            if tier not in split and self._parts[tier] < FORGOTTEN_PART:
                del self._parts[tier]

    def part(self, tier: TierName) -> float:
        """Return the part of a tier as it was told; a link's may be above 1."""
        return (self._parts or {}).get(tier, 0.0)

    def weights(self, storage: Mapping[TierName, float]) -> dict[TierName, float]:
        """Return the parts of storage tiers, scaled to sum to 1.

        Before anything was read they follow the quotas that ``storage`` names [B/s].
        """
        parts = {tier: self.part(tier) for tier in storage}
        if sum(parts.values()) <= 0:
            parts = dict(storage)
        total = sum(parts.values())
        return {tier: part / total if total else 1 / len(parts) for tier, part in parts.items()}


class TierRegulators:
    """The regulators of one job, one per tier that it has a quota on."""

    def __init__(
        self,
        media: Mapping[TierName, Media],
        limits: RegulatorLimits | None = None,
        *,
        profiles: Mapping[Media, Gains] = PROFILES,
        smoothing: float = 0.3,
    ) -> None:
        self.split = AccessSplit(smoothing=smoothing)
        self._media = dict(media)
        self._limits = limits or RegulatorLimits()
        self._profiles = profiles
        self._regulators: dict[TierName, Regulator] = {}

    def adjust(
        self,
        score: float,
        *,
        granted: Mapping[TierName, float],
        split: Mapping[TierName, float],
        iterations: int = 1,
    ) -> dict[TierName, Adjustment]:
        """Return the quota wished for on each tier.

        Args:
            score: The job's health, 0 to 100.
            granted: Tier → quota in force [B/s]; tiers not named here are left out.
            split: Tier → part of the bytes of this iteration read from it.
            iterations: Iterations since the call before.

        Raises:
            ReportError: A figure is not finite or out of its range.
            ConfigError: The medium of a tier is not known.
        """
        single = {
            tier: self._regulator(tier).adjust(score, granted=quota, iterations=iterations)
            for tier, quota in granted.items()
        }
        self.split.observe(split)
        storage = {tier: quota for tier, quota in granted.items() if self._media[tier] != "link"}
        links = {tier: single[tier] for tier in single if tier not in storage}
        return self._combined(single, storage) | self._crossed(links, granted)

    def _combined(
        self, single: Mapping[TierName, Adjustment], storage: Mapping[TierName, float]
    ) -> dict[TierName, Adjustment]:
        if not storage:
            return {}
        weights = self.split.weights(storage)
        change = sum(weights[tier] * single[tier].change for tier in storage)
        error = single[next(iter(storage))].error
        if abs(error) < self._limits.dead_band:
            return {tier: single[tier] for tier in storage}
        whole = sum(storage.values()) * (1.0 + change)
        return {
            tier: self._towards(weights[tier] * whole, quota, grows=change >= 0, error=error)
            for tier, quota in storage.items()
        }

    def _towards(self, wished: float, quota: float, *, grows: bool, error: float) -> Adjustment:
        """Return the adjustment of one tier's quota towards what its part would be.

        While the job's bandwidth is to grow no tier shrinks, and the other way round.
        """
        limits = self._limits
        least, most = (0.0, limits.step) if grows else (-limits.step, 0.0)
        lowest = max(limits.floor, quota * (1.0 + least))
        highest = min(limits.ceiling, max(limits.floor, quota * (1.0 + most)))
        wanted = min(highest, max(lowest, wished))
        return Adjustment(
            wanted=wanted,
            change=wanted / quota - 1.0 if quota else 0.0,
            saturated=wanted not in (wished, quota),
            error=error,
        )

    def _crossed(
        self, links: Mapping[TierName, Adjustment], granted: Mapping[TierName, float]
    ) -> dict[TierName, Adjustment]:
        """Return links' own adjustments; one that nothing crosses keeps its quota."""
        return {
            tier: adjustment
            if self.split.part(tier) > 0
            else Adjustment(
                wanted=granted[tier], change=0.0, saturated=False, error=adjustment.error
            )
            for tier, adjustment in links.items()
        }

    def _regulator(self, tier: TierName) -> Regulator:
        regulator = self._regulators.get(tier)
        if regulator is None:
            if tier not in self._media:
                raise ConfigError(
                    f"tier {tier!r} has a quota but no medium; announce it with a medium first"
                )
            regulator = Regulator(self._profiles[self._media[tier]], self._limits)
            self._regulators[tier] = regulator
        return regulator
