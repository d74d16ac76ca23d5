"""Quotas with real processes: they bind, and they outlive the controller that set them."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from typing import TypeVar

import msgspec
import pytest

from bench.reservation.bed import ReservationBed
from bench.reservation.twin import DISK, Job, Twin
from headrace.wire.estate import Agents, Jobs, Ledger
from testbed.patience import until

pytestmark = pytest.mark.slow

OFFERED = 4e6
"""A tenth of what the disk gives, so that nothing but quotas can keep jobs to it [B/s]."""

_JOB = Job(
    batch_size=4, step_time_s=0.05, sample_bytes=100e3, samples=400, size_spread=0.0, initialise_s=0
)
TWIN = Twin(
    title="two jobs that want far more than they may",
    duration_s=60.0,
    warm_s=0.0,
    disk_bytes_per_s=40e6,
    link_bytes_per_s=60e6,
    jobs={"one": _JOB, "other": _JOB},
)

LOOK_S = 4.0
"""So long rates are measured, and so long the controller is away [s]."""

SETTLED_S = 25.0

T = TypeVar("T", Agents, Jobs, Ledger)


@pytest.fixture
def bed(machine: None) -> Iterator[ReservationBed]:
    with ReservationBed(TWIN, offers_bytes_per_s=OFFERED) as bed:
        yield bed


def test_quotas_bind_and_hold_while_the_controller_is_dead(bed: ReservationBed) -> None:
    controller = bed.start_controller(static=False)
    bed.begin()
    until(lambda: agree(bed), longest_s=SETTLED_S, what="agents do not enforce the quotas")
    limited = watch()
    controller.kill()
    controller.wait(10.0)
    alone = watch()
    bed.start_controller(static=False)
    until(lambda: agree(bed), longest_s=SETTLED_S, what="quotas differ after the restart")
    loans = [loan for loan in ask(bed, "ledger?open=true", Ledger).entries if loan.is_open]
    bed.finish()

    assert sum(loan.bytes_per_s for loan in loans) <= 0.15 * OFFERED * 1.01
    for begin_s, end_s in (limited, alone):
        assert 0.6 * OFFERED < rate(bed, begin_s, end_s) < 1.2 * OFFERED
        for name in TWIN.jobs:
            assert len(steps_between(bed, name, begin_s, end_s)) >= 4


def agree(bed: ReservationBed) -> bool:
    """Return whether both jobs' quotas are in force as they were given, within the tier."""
    (agent,) = ask(bed, "agents", Agents).agents or (None,)
    tiers = [job.tiers.get(DISK) for job in ask(bed, "jobs", Jobs).jobs]
    if agent is None or len(tiers) < len(TWIN.jobs) or None in tiers:
        return False
    found = [tier for tier in tiers if tier is not None]
    told = all(job.ordered == job.enforced for job in agent.jobs.values())
    same = all(
        tier.enforced_bytes_per_s == pytest.approx(tier.granted_bytes_per_s, rel=0.01)
        for tier in found
    )
    return told and same and sum(tier.enforced_bytes_per_s for tier in found) <= 1.001 * OFFERED


def ask(bed: ReservationBed, what: str, kind: type[T]) -> T:
    request = urllib.request.Request(
        f"{bed.controller}/v1/{what}", headers={"Authorization": f"Bearer {bed.token}"}
    )
    with urllib.request.urlopen(request, timeout=5.0) as answer:
        return msgspec.json.decode(answer.read(), type=kind)


def watch() -> tuple[float, float]:
    """Let the jobs train for a while; return from when to when."""
    begin_s = time.time()
    time.sleep(LOOK_S)
    return begin_s, time.time()


def steps_between(bed: ReservationBed, name: str, begin_s: float, end_s: float) -> list[int]:
    """Return the bytes of the batches that a job got in that time."""
    steps = [step for start in bed.steps(name) for step in start]
    return [step.batch_bytes for step in steps if begin_s <= step.begin_s + step.wait_s < end_s]


def rate(bed: ReservationBed, begin_s: float, end_s: float) -> float:
    nbytes = sum(sum(steps_between(bed, name, begin_s, end_s)) for name in TWIN.jobs)
    return nbytes / (end_s - begin_s)
