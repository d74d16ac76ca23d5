"""A simulated run as a trace: what hosts report of each iteration, as events like any other job's.

So what is found in real traces can be tried on runs whose troubles are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil

from msgspec.structs import replace

from headrace.analysis.evidence import CACHED
from headrace.policy.reservation.events import Action, HealthReported, Indicators, JobJoined
from headrace.policy.reservation.events import Event as Told
from headrace.sim.job import SimulatedJob
from headrace.sim.policies import Policy
from headrace.trace.events import Event, Kind, Phase

EPOCH_NS = 1_700_000_000_000_000_000
"""The moment at which a simulated run begins [ns since 1970]."""


class Traced:
    """Does as a policy decides, and records what it is told.

    A load has the mean latency of its reads times their number, as reads that overlap are summed;
    each job is one rank on one host, as it is one in the simulation.
    """

    def __init__(
        self, governing: Policy, jobs: Sequence[SimulatedJob], record: Callable[[Event], None]
    ) -> None:
        self._governing, self._record = governing, record
        self._request_bytes = {job.name: job.request_bytes for job in jobs}
        self._reported_s: dict[str, float] = {}

    def handle(self, event: Told, now: float) -> list[Action]:
        """Record the event if it is of a job, and let the policy handle it."""
        if isinstance(event, JobJoined):
            self._reported_s[event.job] = now
            self._record(_started(event, now))
        if isinstance(event, HealthReported):
            passed_s = now - self._reported_s.get(event.job, now)
            self._reported_s[event.job] = now
            nbytes = event.indicators.read_bytes_per_s * passed_s
            reads = max(1, ceil(nbytes / self._request_bytes[event.job]))
            for one in _iteration(event, now, nbytes=round(nbytes), reads=reads):
                self._record(one)
        return self._governing.handle(event, now)


def _started(event: JobJoined, now: float) -> Event:
    return Event(
        kind=Kind.CALL,
        name="initialise",
        job=event.job,
        host=event.job,
        rank=0,
        phase=Phase.INITIALISATION,
        begin_ns=_ns(now),
        duration_ns=_duration_ns(event.begins_in_s),
    )


def _iteration(event: HealthReported, now: float, *, nbytes: int, reads: int) -> Iterator[Event]:
    """Yield the events of an iteration whose step began now."""
    told = event.indicators
    read_s = reads * told.io_latency_s
    transform_s = _transform_s(told, read_s)
    wait = Event(
        kind=Kind.WAIT,
        job=event.job,
        host=event.job,
        rank=0,
        step=told.iteration,
        begin_ns=_ns(now - told.wait_s),
        duration_ns=_duration_ns(told.wait_s),
    )
    load = replace(
        wait,
        kind=Kind.LOAD,
        begin_ns=_ns(now - read_s - transform_s),
        duration_ns=_duration_ns(read_s + transform_s),
        bytes=nbytes,
    )
    yield wait
    yield replace(wait, kind=Kind.STEP, duration_ns=_duration_ns(told.wait_s + told.step_time_s))
    yield replace(load, counts={CACHED: round(told.hit_rate * nbytes)})
    yield replace(
        load,
        kind=Kind.RETRIEVAL,
        duration_ns=_duration_ns(read_s),
        count=reads,
        queue_ns=_duration_ns(told.queue_share * read_s),
    )
    yield replace(
        wait,
        kind=Kind.TRANSFORMATION,
        begin_ns=_ns(now - transform_s),
        duration_ns=_duration_ns(transform_s),
    )


def _transform_s(told: Indicators, read_s: float) -> float:
    """Return the work of cores beside so much reading [s]."""
    return read_s * told.transform_share / max(1.0 - told.transform_share, 1e-3)


def _ns(moment_s: float) -> int:
    return EPOCH_NS + round(moment_s * 1e9)


def _duration_ns(seconds: float) -> int:
    return round(seconds * 1e9)
