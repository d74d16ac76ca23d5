"""The simulated hardware, and what the software on it is able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.errors import ConfigError
from headrace.core.media import TierName
from headrace.sim.media import Carrier, nominal_rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Estate:
    """Tiers, a cache on the fast one, and the CPUs that transform."""

    tiers: Mapping[TierName, Carrier]
    """Storage tiers and links, by name."""

    fast: TierName = "ssd"
    """The tier that the cache lies on."""

    slow: TierName = "hdd"
    """The tier that holds the datasets."""

    cache_bytes: float = 8e12
    """Room of the cache on the fast tier [bytes]."""

    cpu_cores: float = 256.0
    """Cores for transforms, over all storage hosts."""

    nominal_request_bytes: float = 1e6
    """Request size that a tier's bandwidth is stated for [bytes]."""

    def __post_init__(self) -> None:
        for tier in (self.fast, self.slow):
            if tier not in self.tiers:
                raise ConfigError(
                    f"the estate has no tier {tier!r}, only {', '.join(self.tiers) or 'none'}; "
                    "describe it, or name another as fast and slow"
                )
        if min(self.cache_bytes, self.cpu_cores) < 0 or self.nominal_request_bytes <= 0:
            raise ConfigError("an estate's cache, cores and request size must not be negative")

    def nominal(self, tier: TierName) -> float:
        """Return what a tier is told to give: the bandwidth that a policy divides [B/s]."""
        return nominal_rate(self.tiers[tier], self.nominal_request_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Abilities:
    """What the software of a run can do besides dividing bandwidth: stated, never implied."""

    clairvoyant_cache: bool = False
    """The fast tier keeps what is used soonest and takes no competing scan; else it behaves as
    a page cache does."""

    early_prefetch: bool = False
    """Prefetching begins when a job registers; else when its first step asks."""

    reordering: bool = False
    """Orders to merge a job's reads into sequential runs are carried out."""

    announces_bursts: bool = False
    """Checkpoints are announced to the policy, and keep to the rate that it sets."""


PLAIN = Abilities()
"""A plain loader over a page cache."""

HEADRACE = Abilities(
    clairvoyant_cache=True, early_prefetch=True, reordering=True, announces_bursts=True
)
"""All that headrace does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Enforcement:
    """How quotas come into force on agents and hosts."""

    delay_s: float = 1.0
    """From the decision until it is in force: one report interval [s]."""

    burst_s: float = 0.25
    """What a token bucket lets through at once, as a time at its rate [s]."""

    tick_s: float = 1.0
    """How often the policy hears that time has passed [s]."""

    initial: Mapping[TierName, float] = field(default_factory=dict)
    """Quota of every job before the policy says anything [B/s]; not named: not limited."""
