"""Additive increase, multiplicative decrease: bandwidth by the rule that TCP made known.

A job that waits is given a fixed step more; a tier that is given out beyond its bandwidth
takes the same part from all its jobs. Nobody says how much is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.core.media import TierName
from headrace.policy.reservation.events import (
    Action,
    Event,
    HealthReported,
    Indicators,
    JobJoined,
    JobLeft,
    TierChanged,
)
from headrace.sim.rivals.quotas import Quotas


@dataclass(frozen=True, kw_only=True, slots=True)
class AimdGains:
    """How fast quotas move."""

    step: float = 0.005
    """Added per iteration to a job in need: part of the tier's bandwidth."""

    cut: float = 0.85
    """What all jobs of a tier keep when more than its bandwidth was given out."""

    least: float = 0.1
    """What no cut takes: part of an even share, as TCP never has less than one segment under
    way. Without it a job that reads little of a tier ends with nothing of it, and the day that
    its reads move there it stands still."""

    low_queue: float = 0.5
    """Part of the queue below which a job is in need."""


class Aimd:
    """Raises whoever waits, and cuts all when a tier is given out."""

    def __init__(self, gains: AimdGains | None = None) -> None:
        self._gains = gains or AimdGains()
        self._capacity: dict[TierName, float] = {}
        self._jobs: dict[str, None] = {}
        self._quotas = Quotas()

    def handle(self, event: Event, now: float) -> list[Action]:  # noqa: ARG002
        """Answer one event with the quotas that change."""
        match event:
            case TierChanged():
                self._capacity[event.tier] = event.bytes_per_s
                return self._share_evenly(event.tier, self._jobs)
            case JobJoined(job=job) if job not in self._jobs:
                self._jobs[job] = None
                return [action for tier in self._capacity for action in self._make_room(job, tier)]
            case JobLeft(job=job):
                self._jobs.pop(job, None)
                self._quotas.forget(job)
            case HealthReported() if self._is_in_need(event.indicators):
                return self._raise(event.job, event.indicators)
            case _:
                pass
        return []

    def _is_in_need(self, found: Indicators) -> bool:
        return found.queue_depth < self._gains.low_queue * found.queue_capacity

    def _share_evenly(self, tier: TierName, jobs: Iterable[str]) -> list[Action]:
        each = self._capacity[tier] / max(1, len(self._jobs))
        return [*self._quotas.change({(job, tier): each for job in jobs}, reason="an even part")]

    def _make_room(self, job: str, tier: TierName) -> list[Action]:
        """Give a new job an even part; what is missing is taken from all others alike."""
        each = self._capacity[tier] / len(self._jobs)
        return self._set(tier, {job: each}, reason="an even part for a new job")

    def _raise(self, job: str, found: Indicators) -> list[Action]:
        actions: list[Action] = []
        for tier, part in found.split.items():
            if part > 0 and tier in self._capacity:
                more = self._quotas.of(job, tier) + self._gains.step * self._capacity[tier]
                actions += self._set(tier, {job: more}, reason="its queue is low")
        return actions

    def _set(self, tier: TierName, wanted: dict[str, float], *, reason: str) -> list[Action]:
        """Set some quotas of a tier, cutting all of them as often as they exceed it."""
        quotas = {job: self._quotas.of(job, tier) for job in self._jobs} | wanted
        capacity = self._capacity[tier]
        least = self._gains.least * capacity / max(1, len(quotas))
        was_cut = False
        while sum(quotas.values()) > capacity:
            quotas = {job: max(self._gains.cut * quota, least) for job, quota in quotas.items()}
            was_cut = True
        changes = {(job, tier): quota for job, quota in quotas.items()}
        return [*self._quotas.change(changes, reason="all were cut" if was_cut else reason)]
