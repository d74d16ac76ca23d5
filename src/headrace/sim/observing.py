"""Reports of jobs' prefetch health, as a job's host would make them."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from headrace.core.media import TierName
from headrace.policy.reservation.events import HealthReported, Indicators, JobJoined
from headrace.sim.chance import LATENCIES, Normals
from headrace.sim.fleet import Fleet
from headrace.sim.meter import Measured, Meter
from headrace.sim.paths import Paths

HOST = "host"
"""The one host that reports for a job."""

UPCOMING = 8
"""Batches whose sizes are reported ahead."""

_SAMPLING = 1.0 / sqrt(32.0)
"""Error of a mean over the last reads that are measured."""

_SERVICE_VARIATION = 0.2


class Asking(NamedTuple):
    """A job's next batch being asked for, and got."""

    job: int
    asked_s: float
    begun_s: float
    depth: int
    """Whole batches that lay ready."""


class Observer:
    """Makes events for the policy out of what the meter and the fleet know."""

    def __init__(self, fleet: Fleet, paths: Paths, meter: Meter, *, seed: int) -> None:
        self._fleet, self._paths, self._meter = fleet, paths, meter
        self._chance = [
            Normals(seed=seed, purpose=LATENCIES, job=number) for number in range(len(fleet.jobs))
        ]
        self._step_s = [job.step_time_s for job in fleet.jobs]
        self._reported_s = [job.begins_at_s for job in fleet.jobs]
        self._fast, self._slow = paths.tiers[paths.fast], paths.tiers[paths.slow]
        self._service_s = [
            (paths.service_on(number, paths.fast), paths.service_on(number, paths.slow))
            for number in range(len(fleet.jobs))
        ]
        self._cpu_s = [job.cpu_s_per_byte * job.request_bytes for job in fleet.jobs]

    def joined(self, job: int, now: float) -> JobJoined:
        """Return what a job announces when it starts."""
        plan, fleet = self._fleet.jobs[job], self._fleet
        self._reported_s[job] = now
        return JobJoined(
            job=plan.name,
            weight=plan.weight,
            guaranteed=plan.guaranteed,
            step_time_s=plan.step_time_s,
            begins_in_s=max(0.0, float(fleet.asked[job]) - now),
            upcoming_bytes=fleet.batches[job].ahead(fleet.step[job], plan.queue_batches),
            split=self._split(job, float(self._paths.read[job, self._paths.fast])),
        )

    def report(self, asking: Asking, measured: Measured) -> HealthReported:
        """Return the report that a job's host makes when a batch was taken out of the queue."""
        job = asking.job
        plan, fleet = self._fleet.jobs[job], self._fleet
        ready = max(asking.depth, 1)
        ahead = fleet.batches[job].ahead(fleet.step[job] - 1 + ready, UPCOMING)
        rate = measured.nbytes / max(asking.begun_s - self._reported_s[job], 1e-3)
        self._reported_s[job] = asking.begun_s
        latency, variation = self._sampled_latency(job, measured)
        own_s = self._cpu_s[job] + measured.transform_s
        indicators = Indicators(
            iteration=fleet.iteration[job] - 1,
            step_time_s=self._step_s[job],
            wait_s=asking.begun_s - asking.asked_s,
            queue_depth=float(asking.depth),
            queue_capacity=float(plan.queue_batches),
            io_latency_s=latency,
            io_latency_cv=variation,
            next_bytes=ahead[0],
            upcoming_bytes=ahead[1:],
            queue_share=measured.queue_share,
            throttled_share=measured.throttled_share,
            hit_rate=measured.hit_rate,
            split=self._split(job, measured.hit_rate),
            transform_share=own_s / (own_s + measured.latency_s) if own_s else 0.0,
            nic_bytes_per_s=0.0 if plan.link is None else rate,
            read_bytes_per_s=rate,
        )
        return HealthReported(job=plan.name, host=HOST, indicators=indicators)

    def computed(self, job: int, step_s: float) -> None:
        """Let the smoothed step time follow one step."""
        self._step_s[job] += 0.2 * (step_s - self._step_s[job])

    def _sampled_latency(self, job: int, measured: Measured) -> tuple[float, float]:
        """Return mean and coefficient of variation as a few reads show them."""
        spread = sqrt(self._spread(job, measured) + measured.variation)
        error = spread * _SAMPLING * self._chance[job].draw()
        error = max(-0.5, min(0.5, error))
        return measured.latency_s * (1.0 + error), spread * (1.0 - 0.5 * error)

    def _spread(self, job: int, measured: Measured) -> float:
        """Return the squared variation of single reads: two tiers, and what one device varies."""
        hit, (fast, slow) = measured.hit_rate, self._service_s[job]
        mean = hit * fast + (1.0 - hit) * slow
        apart = hit * (1.0 - hit) * (slow - fast) ** 2 / (mean * mean)
        alone = (mean / max(measured.latency_s, mean)) ** 2
        return (apart + _SERVICE_VARIATION) * alone + 0.5 * (1.0 - alone) * measured.queue_share

    def _split(self, job: int, hit_rate: float) -> dict[TierName, float]:
        plan = self._fleet.jobs[job]
        split = {self._slow: 1.0}
        if plan.cached:
            split = {self._fast: hit_rate, self._slow: 1.0 - hit_rate}
        if plan.link is not None:
            split[plan.link] = 1.0
        return split
