"""Everything that can be set about the reservation of bandwidth."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.errors import ConfigError
from headrace.policy.reservation.bursts import BurstLimits
from headrace.policy.reservation.diagnosis import DiagnosisLimits
from headrace.policy.reservation.foresight import ForesightLimits
from headrace.policy.reservation.health import HealthLimits
from headrace.policy.reservation.pool import PoolLimits
from headrace.policy.reservation.regulator import RegulatorLimits
from headrace.policy.reservation.reorder import ReorderLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationLimits:
    """Everything that can be set about the reservation of bandwidth."""

    predictive: bool = True
    """Needs are reckoned from the bytes that the schedule says come next; otherwise quotas
    only follow health."""

    round_s: float = 1.0
    """Quotas are divided anew at most this often, but for joins, leaves and timers [s]."""

    floor_share: float = 0.02
    """Part of each tier that is guaranteed to all jobs, in equal parts, 0 to below 1."""

    tolerance: float = 0.02
    """Quotas that differ by less are left alone."""

    lend_below: float = 60.0
    """Score below which a job may borrow; a forecast that a deadline is missed also lets it."""

    silent_s: float = 60.0
    """A job that was not heard of for longer, and for five of its steps, has no more than its
    floor and what is over, until it is heard again [s]."""

    most_correction: float = 2.0
    """Health raises what was forecast by this factor at most."""

    use_margin: float = 0.2
    """A transform-bound job keeps what it reads, and this much more; of tiers beside a congested
    one a job keeps three times as much more."""

    pool: PoolLimits = field(default_factory=PoolLimits)
    health: HealthLimits = field(default_factory=HealthLimits)
    diagnosis: DiagnosisLimits = field(default_factory=DiagnosisLimits)
    regulator: RegulatorLimits = field(default_factory=RegulatorLimits)
    reorder: ReorderLimits = field(default_factory=ReorderLimits)
    foresight: ForesightLimits = field(default_factory=ForesightLimits)
    bursts: BurstLimits = field(default_factory=BurstLimits)

    def __post_init__(self) -> None:
        if not 0 <= self.floor_share < 1 - self.pool.share:
            raise ConfigError(
                f"floor_share={self.floor_share:g} must lie in [0, {1 - self.pool.share:g}), what"
                " the pool leaves; lower it or pool.share"
            )
        if self.silent_s <= 0:
            raise ConfigError(
                f"silent_s={self.silent_s:g} must be above 0; it is a time in seconds"
            )
        if self.round_s <= 0 or not 0 < self.tolerance < 0.1:
            raise ConfigError(
                f"round_s={self.round_s:g} must be above 0, tolerance={self.tolerance:g} in"
                " (0, 0.1)"
            )
        if self.most_correction < 1 or self.use_margin <= 0 or not 0 <= self.lend_below <= 100:
            raise ConfigError(
                f"most_correction={self.most_correction:g} must be at least 1, use_margin="
                f"{self.use_margin:g} above 0, lend_below={self.lend_below:g} in 0 to 100"
            )
