"""Checkpoint bursts beside data reads: as fast as their deadlines ask, within what reads leave.

A burst needs what is left of it over the time that is left. Urgent ones are served before the
data reads of healthy jobs; others take part in the division like one more job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.core.media import TierName
from headrace.policy.reservation.events import BurstAnnounced


@dataclass(frozen=True, kw_only=True, slots=True)
class BurstLimits:
    """What checkpoint bursts may take."""

    margin: float = 0.1
    """Asked for beyond what the deadline needs, because rates are never met exactly."""

    share: float = 0.6
    """Part of a tier that all bursts together may take while a job reads from it in need."""

    shortest_s: float = 1.0
    """A deadline closer than this, or past, is treated as this far away [s]."""

    grace_s: float = 60.0
    """A burst that is neither ended nor renewed this long after its deadline is dropped [s]."""

    def __post_init__(self) -> None:
        if self.margin < 0 or not 0 < self.share <= 1:
            raise ConfigError(
                f"bursts.margin={self.margin:g} must not be negative, bursts.share="
                f"{self.share:g} must lie in (0, 1]"
            )
        if self.shortest_s <= 0 or self.grace_s <= 0:
            raise ConfigError(
                f"bursts.shortest_s={self.shortest_s:g} and grace_s={self.grace_s:g} must be"
                " above 0"
            )


@dataclass(kw_only=True, slots=True)
class Burst:
    """A checkpoint that is being moved."""

    job: str
    name: str
    tier: TierName
    nbytes: float
    """As announced [bytes]."""

    left: float
    """Still to be moved, if it moves at the rate it was given [bytes]."""

    deadline_at: float
    """[s]"""

    urgent: bool
    bytes_per_s: float = 0.0
    """Its rate in force [B/s]."""

    reason: str = ""
    """Why the rate is what it is."""

    def needs(self, now: float, limits: BurstLimits) -> float:
        """Return the rate that meets the deadline, with a margin [B/s].

        What is left counts as a twentieth at least: the estimate may be ahead of the copy.
        """
        left = max(self.left, 0.05 * self.nbytes)
        return left * (1.0 + limits.margin) / max(self.deadline_at - now, limits.shortest_s)


class Bursts:
    """All bursts that were announced and not ended."""

    def __init__(self, limits: BurstLimits) -> None:
        self._limits = limits
        self._bursts: dict[tuple[str, str], Burst] = {}
        self._at = 0.0

    def __bool__(self) -> bool:
        return bool(self._bursts)

    def ordered(self) -> Sequence[Burst]:
        """Return all of them, the urgent ones first, then by deadline."""
        key = lambda b: (not b.urgent, b.deadline_at, b.job, b.name)  # noqa: E731
        return sorted(self._bursts.values(), key=key)

    def of(self, job: str) -> Sequence[Burst]:
        """Return a job's bursts."""
        return [burst for burst in self._bursts.values() if burst.job == job]

    def find(self, job: str, name: str) -> Burst | None:
        """Return a burst, if it is known."""
        return self._bursts.get((job, name))

    def announce(self, event: BurstAnnounced, now: float) -> None:
        """Take in a burst; of one that is known what is left and its deadline are renewed."""
        key = (event.job, event.burst)
        known = self._bursts.get(key)
        self._bursts[key] = Burst(
            job=event.job,
            name=event.burst,
            tier=event.tier,
            nbytes=event.nbytes,
            left=event.nbytes,
            deadline_at=now + event.deadline_s,
            urgent=event.urgent,
            bytes_per_s=known.bytes_per_s if known and known.tier == event.tier else 0.0,
        )

    def end(self, job: str, name: str) -> None:
        """Forget a burst."""
        self._bursts.pop((job, name), None)

    def end_all(self, job: str) -> None:
        """Forget all bursts of a job."""
        for burst in self.of(job):
            self.end(job, burst.name)

    def advance(self, now: float) -> Sequence[Burst]:
        """Count what the rates in force have moved; drop and return what nobody renewed."""
        elapsed, self._at = now - self._at, now
        dropped = []
        for burst in list(self._bursts.values()):
            burst.left = max(burst.left - burst.bytes_per_s * elapsed, 0.0)
            if now > burst.deadline_at + self._limits.grace_s:
                self.end(burst.job, burst.name)
                dropped.append(burst)
        return dropped
