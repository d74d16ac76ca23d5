"""What jobs' quotas hold back: a token bucket for each job and tier, and who waits for it.

Two kinds of reads come here. One that somebody waits for now is asked for with a number, and
let go in the order of steps. A sample that is prepared ahead is held until nothing is owed any
more and no such read waits. Time is a parameter; nothing here waits.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.core.media import TierName
from headrace.policy.bucket import TokenBucket
from headrace.policy.lookahead_events import Read, ReadAsked, Stored

Rates: TypeAlias = Mapping[str, Mapping[TierName, float]]
"""Job → tier → bandwidth [B/s]; what is not named is not limited."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """One job on one tier."""

    bucket: TokenBucket
    waiting: list[ReadAsked] = field(default_factory=list)
    """In the order in which they are let go."""


class Throttle:
    """The quotas in force, and what they hold back. Not thread-safe.

    Args:
        burst_s: A quota that was not used for this long is saved up, and no more [s].
    """

    def __init__(self, burst_s: float) -> None:
        self.active = False
        """Whether there is any quota; while there is none nothing else need be asked."""

        self._burst_s = burst_s
        self._lanes: dict[str, dict[TierName, _Lane]] = {}
        self._held: dict[str, float] = {}
        self._reads_at = math.inf

    def set_quotas(self, rates: Rates, now: float) -> list[Read]:
        """Hold every job to these and no other quotas from now on; return what waits no more.

        A job that is not known here yet is held to its quota once it comes.
        """
        before, self._lanes = self._lanes, {}
        self.active = bool(rates)
        self._held.clear()
        for job, tiers in rates.items():
            known = before.get(job, {})
            self._lanes[job] = {
                tier: self._lane(known.pop(tier, None), rate, now) for tier, rate in tiers.items()
            }
        lifted = [lane for lanes in before.values() for lane in lanes.values()]
        return [Read(read=asked.read) for lane in lifted for asked in lane.waiting]

    def limits(self, job: str, tier: TierName | None = None) -> bool:
        """Return whether a job has a quota, on a tier or on any."""
        lanes = self._lanes.get(job)
        return bool(lanes) if tier is None or not lanes else tier in lanes

    def quotas(self) -> dict[str, dict[TierName, float]]:
        """Return the quotas in force [B/s]."""
        return {
            job: {tier: lane.bucket.rate for tier, lane in lanes.items()}
            for job, lanes in self._lanes.items()
        }

    def has_waiting(self, job: str) -> bool:
        """Return whether a read that somebody waits for waits for the job's quota."""
        return any(lane.waiting for lane in self._lanes.get(job, {}).values())

    def next_at(self) -> float | None:
        """Return when something may be read that was held back [s]; None when never."""
        if not self.active:
            return None
        at = min(self._reads_at, *self._held.values(), math.inf)
        return None if at == math.inf else at

    # Reads that somebody waits for

    def ask(self, asked: ReadAsked) -> list[Read]:
        """Put a read in line; return it at once where there is no quota."""
        lane = self._lanes.get(asked.job, {}).get(asked.tier)
        if lane is None:
            return [Read(read=asked.read)]
        bisect.insort(lane.waiting, asked, key=lambda other: other.step)
        return []

    def withdraw(self, read: int) -> None:
        """Forget a read that waits; nothing happens if it was let go."""
        for lanes in self._lanes.values():
            for lane in lanes.values():
                for asked in [asked for asked in lane.waiting if asked.read == read]:
                    lane.waiting.remove(asked)

    def release(self, now: float) -> list[Read]:
        """Return the reads that may be made now."""
        reads: list[Read] = []
        self._reads_at = math.inf
        for lanes in self._lanes.values():
            for lane in lanes.values():
                while lane.waiting and lane.bucket.take_nowait(lane.waiting[0].nbytes, now):
                    reads.append(Read(read=lane.waiting.pop(0).read))
                if lane.waiting:
                    self._reads_at = min(self._reads_at, lane.bucket.free_at(now))
        return reads

    # Samples that are prepared ahead

    def begin_round(self) -> None:
        """Forget which jobs were held: each is looked at again."""
        self._held.clear()

    def holds(self, job: str, stored: Stored, now: float) -> bool:
        """Return whether a sample must wait for its job's quota, and remember that it does."""
        if not self.would_wait(job, stored.tier, now):
            return False
        self._held[job] = self._lanes[job][stored.tier].bucket.free_at(now)
        return True

    def would_wait(self, job: str, tier: TierName, now: float) -> bool:
        """Return whether a read from a tier would have to wait for the job's quota there."""
        lane = self._lanes.get(job, {}).get(tier)
        return lane is not None and (bool(lane.waiting) or not lane.bucket.is_free(now))

    def pay(self, job: str, stored: Stored, now: float) -> None:
        """Charge a sample that is read now."""
        lane = self._lanes.get(job, {}).get(stored.tier)
        if lane is not None:
            lane.bucket.charge(stored.nbytes, now)

    def _lane(self, known: _Lane | None, rate: float, now: float) -> _Lane:
        if known is None:
            return _Lane(TokenBucket(rate, rate * self._burst_s, now))
        if known.bucket.rate != rate:
            known.bucket.set_rate(rate, rate * self._burst_s, now)
        return known
