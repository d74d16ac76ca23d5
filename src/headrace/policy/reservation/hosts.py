"""The hosts of one job: who reported, when an iteration is complete, and what the job is like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from headrace.core.media import TierName
from headrace.policy.reservation.diagnosis import Diagnosis, DiagnosisLimits, Diagnostician
from headrace.policy.reservation.events import Indicators
from headrace.policy.reservation.health import Health, HealthLimits, HealthTracker

_STALE_STEPS = 3.0
"""A host that is this many steps behind the newest report is not waited for."""

_STALE_LEAST_S = 1.0
"""Shorter gaps never make a host stale [s]."""

_GONE_STEPS = 20.0
"""A host that is this many steps behind the newest report has left the job."""

_GONE_LEAST_S = 60.0
"""Shorter gaps never mean that: after an outage, hosts take up to 30 s to report again [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A job at the end of an iteration, over its hosts: bytes are sums, the rest the worst's."""

    iteration: int
    step_time_s: float
    wait_s: float
    queue_depth: float
    queue_capacity: float
    upcoming: tuple[float, ...]
    """Stored bytes of the next batches, the very next first [bytes]."""

    split: Mapping[TierName, float]
    hit_rate: float
    throttled_share: float
    read_bytes_per_s: float


class Host:
    """One host's latest report and what it tells."""

    __slots__ = ("_diagnostician", "_tracker", "at", "diagnosis", "health", "indicators")

    indicators: Indicators
    health: Health
    diagnosis: Diagnosis
    at: float

    def __init__(self, health: HealthLimits, diagnosis: DiagnosisLimits) -> None:
        self._tracker = HealthTracker(health)
        self._diagnostician = Diagnostician(diagnosis)

    def observe(self, indicators: Indicators, now: float) -> None:
        """Take in a report.

        Raises:
            ReportError: A figure cannot be true; nothing changed.
        """
        self.health = self._tracker.observe(indicators)
        self.diagnosis = self._diagnostician.observe(indicators, self.health)
        self.indicators = indicators
        self.at = now


class Hosts:
    """Collects the reports of a job's hosts into iterations.

    An iteration is over when every host reported it, or when one reports the next: a dead
    host delays decisions by an iteration until it is stale, and never stops them. While it is
    stale it counts as an average one, for it may only have lost its reports; after a minute, or
    twenty steps, it does not count any more.

    Args:
        expected: Hosts that were announced.
    """

    def __init__(self, expected: int, health: HealthLimits, diagnosis: DiagnosisLimits) -> None:
        self._health = health
        self._diagnosis = diagnosis
        self._expected = expected
        self._hosts: dict[str, Host] = {}
        self._before: dict[str, Host] = {}
        self._newest = -1
        self._arrived = 0
        self._is_decided = True

    def __len__(self) -> int:
        return len(self._hosts)

    def expect(self, hosts: int) -> None:
        """Wait for this many hosts, until it shows how many report; of more, forget the stalest."""
        self._expected = hosts
        stalest_first = sorted(self._hosts.items(), key=lambda item: item[1].at)
        self._hosts = dict(stalest_first[-hosts:])

    def of_next_run(self, expected: int) -> Hosts:
        """Return an empty collection for the job's next run; it remembers what is usual."""
        following = Hosts(expected, self._health, self._diagnosis)
        following._before = dict(self._hosts or self._before)
        return following

    def report(self, name: str, indicators: Indicators, now: float) -> bool:
        """Take in a host's report; return whether an iteration is over.

        A host that reports an iteration that it is past has begun anew: of what was learnt
        only what is usual for it is kept. The same iteration again is ignored.
        """
        host, iteration = self._hosts.get(name), indicators.iteration
        if host is not None and iteration == host.indicators.iteration:
            return False
        if host is None:
            host = self._before.pop(name, None) or Host(self._health, self._diagnosis)
        host.observe(indicators, now)
        self._hosts[name] = host
        return self._count(iteration)

    def _count(self, iteration: int) -> bool:
        if len(self._hosts) == 1 and self._expected <= 1:
            return True
        is_over = False
        if iteration > self._newest or iteration + 1 < self._newest:
            is_over = not self._is_decided
            self._newest, self._arrived, self._is_decided = iteration, 0, False
        self._arrived += iteration == self._newest
        if not self._is_decided and self._arrived >= self._expected:
            self._is_decided = is_over = True
        if is_over:
            self._hosts = self._heard_within(_GONE_STEPS, _GONE_LEAST_S)
            self._expected = len(self.fresh())
        return is_over

    def fresh(self) -> Sequence[Host]:
        """Return the hosts that are not far behind the newest report."""
        if len(self._hosts) == 1:
            return tuple(self._hosts.values())
        return tuple(self._heard_within(_STALE_STEPS, _STALE_LEAST_S).values())

    def _heard_within(self, steps: float, least_s: float) -> dict[str, Host]:
        """Return the hosts that are at most so many steps, or seconds, behind the newest report."""
        newest = max(host.at for host in self._hosts.values())
        return {
            name: host
            for name, host in self._hosts.items()
            if newest - host.at <= max(steps * host.indicators.step_time_s, least_s)
        }

    def worst(self) -> Host:
        """Return the host with the lowest score, for synchronous training waits for it."""
        return min(self.fresh(), key=lambda host: host.health.score)

    def reading(self) -> Reading:
        """Return the job over its fresh hosts; bytes of missing ones are taken for average."""
        hosts = [host.indicators for host in self.fresh()]
        if len(self._hosts) == 1:
            return _single(hosts[0])
        scale = len(self._hosts) / len(hosts)
        upcoming = zip_longest(*[(i.next_bytes, *i.upcoming_bytes) for i in hosts], fillvalue=0.0)
        return Reading(
            iteration=max(i.iteration for i in hosts),
            step_time_s=max(i.step_time_s for i in hosts),
            wait_s=max(i.wait_s for i in hosts),
            queue_depth=min(i.queue_depth for i in hosts),
            queue_capacity=min(i.queue_capacity for i in hosts),
            upcoming=tuple(sum(sizes) * scale for sizes in upcoming),
            split=_joint_split(hosts),
            hit_rate=sum(i.hit_rate for i in hosts) / len(hosts),
            throttled_share=max(i.throttled_share for i in hosts),
            read_bytes_per_s=sum(i.read_bytes_per_s for i in hosts) * scale,
        )


def _single(host: Indicators) -> Reading:
    return Reading(
        iteration=host.iteration,
        step_time_s=host.step_time_s,
        wait_s=host.wait_s,
        queue_depth=host.queue_depth,
        queue_capacity=host.queue_capacity,
        upcoming=(host.next_bytes, *host.upcoming_bytes),
        split=host.split,
        hit_rate=host.hit_rate,
        throttled_share=host.throttled_share,
        read_bytes_per_s=host.read_bytes_per_s,
    )


def _joint_split(hosts: Sequence[Indicators]) -> Mapping[TierName, float]:
    """Return the parts by tier over all hosts, weighted with what each read."""
    total = sum(i.read_bytes_per_s for i in hosts if i.split)
    if total <= 0:
        return {}
    split: dict[TierName, float] = {}
    for i in hosts:
        for tier, part in i.split.items():
            split[tier] = split.get(tier, 0.0) + part * i.read_bytes_per_s / total
    return split
