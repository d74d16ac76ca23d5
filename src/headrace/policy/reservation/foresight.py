"""What a job will need, from the bytes that its schedule says come next: borrow before it hurts.

A batch that does not lie ready has a deadline: the steps that the queue still covers, plus its
own place behind them. The rate that meets every known deadline is what the job *must* have;
a job with a deep queue must have less than its mean, and by that much it can lend. What it
*wants* is its mean, with a margin, plus what refills its queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.core.media import TierName
from headrace.policy.reservation.events import JobJoined
from headrace.policy.reservation.hosts import Reading

EVERYTHING = 1e15
"""Wanted while nothing is known of a job's needs: more than any tier gives [B/s]."""

FORGOTTEN_PART = 1e-9
"""A tier that no more of a job's bytes are read from is forgotten."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForesightLimits:
    """How far ahead a job's needs are reckoned, and with what margins."""

    margin: float = 0.1
    """Wanted beyond the mean need, because batches differ in size."""

    batches: int = 8
    """Batches ahead whose deadlines count; those that are not known are of mean size."""

    fill: float = 0.9
    """Part of the queue that should be filled, 0 to 1."""

    refill_steps: float = 4.0
    """Steps within which an empty queue should be refilled."""

    size_gain: float = 0.1
    """Gain of the smoothed batch size, per iteration."""

    split_gain: float = 0.25
    """Gain of the smoothed split over tiers, per iteration."""

    trend_steps: float = 3.0
    """Steps by which the split's trend is extrapolated."""

    def __post_init__(self) -> None:
        gains = (self.size_gain, self.split_gain, self.fill)
        if self.batches < 1 or not all(0 < gain <= 1 for gain in gains):
            raise ConfigError(
                f"foresight.batches={self.batches} must be at least 1, and size_gain,"
                f" split_gain, fill {gains} must lie in (0, 1]"
            )
        if self.margin < 0 or self.trend_steps < 0 or self.refill_steps <= 0:
            raise ConfigError(
                f"foresight.margin={self.margin:g} and trend_steps={self.trend_steps:g} must not"
                f" be negative, refill_steps={self.refill_steps:g} must be above 0"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What one job needs from now on."""

    must: float
    """Rate that meets every known deadline [B/s]."""

    want: float
    """Rate that also keeps the queue filled, with a margin [B/s]."""

    split: Mapping[TierName, float]
    """Tier → part of the bytes expected from it, link → bytes expected to cross it per byte
    read; storage tiers may sum to more than 1 while they change. Empty: not known."""

    def musts(self, tier: TierName) -> float:
        """Return what a tier must give [B/s]; all of it where the split is not known."""
        return self.must * (self.split.get(tier, 0.0) if self.split else 1.0)

    def wants(self, tier: TierName) -> float:
        """Return what is wanted of a tier [B/s]."""
        return self.want * (self.split.get(tier, 0.0) if self.split else 1.0)


def meeting_deadlines(nbytes: Sequence[float], *, first_s: float, step_s: float) -> float:
    """Return the least constant rate that has each batch ready when it is asked for [B/s].

    Args:
        nbytes: Sizes of batches that are not ready, in order.
        first_s: Time until the first of them is asked for, above 0 [s].
        step_s: Time between two [s].
    """
    total, due, rate = 0.0, first_s, 0.0
    for size in nbytes:
        total += size
        rate = max(rate, total / due)
        due += step_s
    return rate


class Foresight:
    """A model of one job, learnt from its own history and its schedule.

    Args:
        limits: Margins and gains.
        joined: What the job announced of itself.
        now: When it did [s].
    """

    def __init__(self, limits: ForesightLimits, joined: JobJoined, now: float) -> None:
        self._limits = limits
        self._split = dict(joined.split)
        self._trend: dict[TierName, float] = {}
        self._step_s = joined.step_time_s
        self._upcoming = joined.upcoming_bytes
        self._mean = _mean(joined.upcoming_bytes)
        self._depth = 0.0
        self._capacity = float(len(joined.upcoming_bytes))
        self._begins_at = now + joined.begins_in_s
        self._began = False

    @property
    def split(self) -> Mapping[TierName, float]:
        """Smoothed split over tiers; empty while nothing is known."""
        return self._split

    def observe(self, reading: Reading) -> None:
        """Take in the end of one iteration."""
        self._began = True
        self._step_s = reading.step_time_s or self._step_s
        self._upcoming = reading.upcoming
        self._depth = max(reading.queue_depth - 1.0, 0.0)
        self._capacity = reading.queue_capacity
        known = _mean(reading.upcoming)
        if known:
            gain = self._limits.size_gain if self._mean else 1.0
            self._mean += gain * (known - self._mean)
        self._learn_split(reading.split)

    def _learn_split(self, split: Mapping[TierName, float]) -> None:
        if not split:
            return
        for tier in self._split.keys() | split.keys():
            self._learn_part(tier, split.get(tier, 0.0))
            if tier not in split and self._split[tier] < FORGOTTEN_PART:
                del self._split[tier], self._trend[tier]

    def _learn_part(self, tier: TierName, now: float) -> None:
        gain = self._limits.split_gain
        before = self._split.get(tier, now)
        self._split[tier] = before + gain * (now - before)
        trend = self._trend.get(tier, 0.0)
        self._trend[tier] = trend + gain * (gain * (now - before) - trend)

    def outlook(self, now: float) -> Outlook:
        """Return what the job needs from now on."""
        if self._step_s <= 0 or not self._mean:
            return Outlook(must=0.0, want=EVERYTHING, split=self._split)
        first, sizes = self._first_s(now), self._sizes()
        must = meeting_deadlines(sizes, first_s=first, step_s=self._step_s)
        steady = self._mean / self._step_s * (1 + self._limits.margin)
        missing = max(self._limits.fill * self._capacity - self._depth - 1.0, 0.0)
        refill = missing * self._mean / (self._limits.refill_steps * self._step_s)
        want = max(must, steady + refill) if self._began else max(must, sum(sizes) / first)
        return Outlook(must=must, want=want, split=self._expected_split())

    def _first_s(self, now: float) -> float:
        """Return the time until a batch is asked for that is not ready [s]."""
        if not self._began:
            return max(self._begins_at - now, self._step_s)
        return (self._depth + 1.0) * self._step_s

    def _sizes(self) -> Sequence[float]:
        known = self._upcoming[: self._limits.batches]
        if not self._began:
            return known
        return (*known, *[self._mean] * (self._limits.batches - len(known)))

    def _expected_split(self) -> Mapping[TierName, float]:
        """Return the split some steps ahead: each tier's part, and what its trend adds."""
        steps = self._limits.trend_steps
        return {
            tier: min(part + max(self._trend.get(tier, 0.0), 0.0) * steps, max(part, 1.0))
            for tier, part in self._split.items()
        }


def _mean(sizes: Sequence[float]) -> float:
    return sum(sizes) / len(sizes) if sizes else 0.0
