"""What each job read and was sent by this agent, tier by tier, since the agent started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.core.media import TierName
from headrace.policy.lookahead_events import Visit
from headrace.wire.control import JobUse, TierUse


@dataclass(frozen=True, slots=True)
class Reading:
    """What a task reads, and how long its job's quota held it back."""

    job: str
    tier: TierName
    nbytes: int
    throttled_s: float
    visit: Visit | None = None
    """Of the sample that it is read for, if it is for one."""


class Effort(NamedTuple):
    """What an agent's workers have spent their time on, for all jobs together."""

    whole_s: float = 0.0
    cores_s: float = 0.0
    """Of that, on cores and in line for them; the rest is waiting for storage [s]."""

    def plus(self, whole_s: float, cores_s: float) -> Effort:
        """Return it with one more sample."""
        return Effort(self.whole_s + whole_s, self.cores_s + min(cores_s, whole_s))

    def on_cores_since(self, before: Effort) -> float:
        """Return the part of the time since then that was spent on cores, 0 to 1."""
        whole_s = self.whole_s - before.whole_s
        return (self.cores_s - before.cores_s) / whole_s if whole_s > 0 else 0.0


@dataclass(slots=True)
class _OnTier:
    nbytes: int = 0
    reads: int = 0
    queued_s: float = 0.0
    read_s: float = 0.0


@dataclass(slots=True)
class _OfJob:
    tiers: dict[TierName, _OnTier] = field(default_factory=dict)
    tensor_bytes: int = 0
    raw_bytes: int = 0


class Usage:
    """Counts; cheap enough to be kept for every sample. Event loop's thread only."""

    def __init__(self) -> None:
        self._jobs: dict[str, _OfJob] = {}

    def count_read(
        self, job: str, tier: TierName, nbytes: int, *, queued_s: float, read_s: float
    ) -> None:
        """Count one read, or one frame that went out over a link."""
        tiers = self._of(job).tiers
        used = tiers.get(tier)
        if used is None:
            used = tiers[tier] = _OnTier()
        used.nbytes += nbytes
        used.reads += 1
        used.queued_s += queued_s
        used.read_s += read_s

    def count_sent(self, job: str, nbytes: int, *, raw: bool) -> None:
        """Count bytes sent, encoded or transformed."""
        sent = self._of(job)
        if raw:
            sent.raw_bytes += nbytes
        else:
            sent.tensor_bytes += nbytes

    def forget(self, job: str) -> None:
        """Drop a job that is gone."""
        self._jobs.pop(job, None)

    def totals(self) -> dict[str, JobUse]:
        """Return what each job used since it came."""
        return {
            name: JobUse(
                tiers={
                    tier: TierUse(
                        nbytes=used.nbytes,
                        reads=used.reads,
                        queued_s=used.queued_s,
                        read_s=used.read_s,
                    )
                    for tier, used in job.tiers.items()
                },
                tensor_bytes=job.tensor_bytes,
                raw_bytes=job.raw_bytes,
            )
            for name, job in self._jobs.items()
        }

    def _of(self, job: str) -> _OfJob:
        known = self._jobs.get(job)
        if known is None:
            known = self._jobs[job] = _OfJob()
        return known


def used_since(before: Mapping[str, JobUse], now: Mapping[str, JobUse]) -> dict[str, JobUse]:
    """Return what each job used between two totals; a job that came anew counts from 0."""
    return {name: _less(use, before.get(name)) for name, use in now.items()}


def _less(now: JobUse, before: JobUse | None) -> JobUse:
    if before is None or _is_anew(now, before):
        return now
    return JobUse(
        tiers={tier: _less_on_tier(use, before.tiers.get(tier)) for tier, use in now.tiers.items()},
        tensor_bytes=now.tensor_bytes - before.tensor_bytes,
        raw_bytes=now.raw_bytes - before.raw_bytes,
    )


def _less_on_tier(now: TierUse, before: TierUse | None) -> TierUse:
    if before is None:
        return now
    return TierUse(
        nbytes=now.nbytes - before.nbytes,
        reads=now.reads - before.reads,
        queued_s=now.queued_s - before.queued_s,
        read_s=now.read_s - before.read_s,
    )


def _is_anew(now: JobUse, before: JobUse) -> bool:
    """Return whether the job was forgotten in between: nothing else makes a count smaller."""
    fewer = any(
        tier not in now.tiers or now.tiers[tier].reads < use.reads
        for tier, use in before.tiers.items()
    )
    return fewer or now.tensor_bytes < before.tensor_bytes or now.raw_bytes < before.raw_bytes
