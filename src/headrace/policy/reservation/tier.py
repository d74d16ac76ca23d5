"""One tier of an estate in the arbiter's books."""

from __future__ import annotations

from collections.abc import Callable

from headrace.policy.reservation.events import TierChanged
from headrace.policy.reservation.limits import ReservationLimits
from headrace.policy.reservation.pool import ElasticPool


class Tier:
    """One tier: its medium, its bandwidth, its elastic pool."""

    def __init__(
        self, event: TierChanged, limits: ReservationLimits, number: Callable[[], int]
    ) -> None:
        self.name = event.tier
        self.media = event.media
        self.bytes_per_s = event.bytes_per_s
        """What is divided [B/s]."""
        self.pool = ElasticPool(event.tier, limits.pool, number)
        self.is_short = False
        """Somebody got less than it wants in the last round."""
        self.is_congested = False
        """A job suffers congestion there: others than headrace's jobs take part of it."""
