"""A simulated run's trace says what its hosts report."""

from __future__ import annotations

import pytest

from headrace.analysis.analyser import Analyser
from headrace.analysis.evidence import CACHED
from headrace.policy.reservation.events import Action, HealthReported, Indicators, JobJoined, Tick
from headrace.policy.reservation.events import Event as Told
from headrace.sim.estate import Estate
from headrace.sim.job import Dataset, SimulatedJob
from headrace.sim.media import SolidState, Spinning
from headrace.sim.tracing import EPOCH_NS, Traced
from headrace.sim.world import World
from headrace.trace.events import Event, Kind, Phase, batch_of
from headrace.trace.importer import Notes


class Idle:
    """Decides nothing."""

    def __init__(self) -> None:
        self.heard: list[Told] = []

    def handle(self, event: Told, now: float) -> list[Action]:
        self.heard.append(event)
        return []


JOB = SimulatedJob(
    name="a",
    dataset=Dataset(samples=5000, mean_bytes=1e6, spread=0.0),
    batch_size=64,
    step_time_s=2.0,
    request_bytes=1e6,
    cached=False,
)


def test_an_iteration_becomes_its_wait_its_step_and_the_parts_of_its_load() -> None:
    events: list[Event] = []
    governing = Idle()
    traced = Traced(governing, [JOB], events.append)
    traced.handle(JobJoined(job="a", begins_in_s=5.0), 10.0)
    report = Indicators(
        iteration=3,
        step_time_s=2.0,
        wait_s=0.5,
        queue_depth=0,
        queue_capacity=4,
        io_latency_s=0.01,
        io_latency_cv=0.0,
        next_bytes=64e6,
        queue_share=0.25,
        hit_rate=0.75,
        transform_share=0.2,
        read_bytes_per_s=8e6,
    )
    traced.handle(HealthReported(job="a", host="host", indicators=report), 20.0)
    traced.handle(Tick(), 21.0)
    assert len(governing.heard) == 3
    assert events[0].phase == Phase.INITIALISATION
    found = {Kind(event.kind): event for event in events[1:]}
    assert found[Kind.WAIT].duration_ns == 500_000_000
    assert found[Kind.WAIT].begin_ns == EPOCH_NS + 19_500_000_000
    assert found[Kind.STEP].duration_ns == 2_500_000_000
    reading = found[Kind.RETRIEVAL]
    assert (reading.bytes, reading.count) == (80_000_000, 80)
    assert reading.duration_ns == pytest.approx(800_000_000)
    assert reading.queue_ns == pytest.approx(200_000_000)
    assert found[Kind.TRANSFORMATION].duration_ns == pytest.approx(200_000_000)
    assert found[Kind.LOAD].counts == {CACHED: 60_000_000}


def test_a_run_whose_disks_are_too_slow_is_bound_by_them() -> None:
    events: list[Event] = []
    estate = Estate(
        tiers={
            "ssd": SolidState(devices=1, bytes_per_s=1e9, latency_s=1e-4),
            "hdd": Spinning(devices=1, bytes_per_s=20e6, seek_s=0.008),
        }
    )
    policy = Traced(Idle(), [JOB], events.append)
    World(estate, [JOB], policy=policy).run(600.0)
    analyser = Analyser()
    analyser.add(batch_of(events))
    (first, *_) = analyser.result(format_name="simulated", notes=Notes()).findings
    assert first.cause == "storage-bandwidth-bound"
    assert first.lost_share > 0.3
