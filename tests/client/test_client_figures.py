"""Summing up one rank's steps, and several ranks of a host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.counts import Counts
from headrace.client.reporting.figures import (
    LAST_READS,
    Figures,
    Latencies,
    later,
    of_moments,
    together,
)
from headrace.client.reporting.moment import Moment
from headrace.client.reporting.words import pack, unpack


def counts_of(latencies: list[float], **changes: object) -> Counts:
    counts = Counts()
    for latency in latencies:
        counts.took(latency)
    for name, value in changes.items():
        setattr(counts, name, value)
    return counts


def figures(**changes: object) -> Figures:
    values: dict[str, object] = {
        "iteration": 5,
        "step": 5,
        "step_time_s": 1.0,
        "wait_s": 0.0,
        "queue_depth": 8.0,
        "queue_capacity": 8.0,
        "latency_s": 0.01,
        "latency_cv": 0.5,
        "upcoming_bytes": (100, 200),
    }
    return Figures(**{**values, **changes})  # type: ignore[arg-type]


@given(st.lists(st.lists(st.floats(1e-4, 10), min_size=1, max_size=20), min_size=1, max_size=20))
def test_mean_and_spread_are_those_of_all_the_reads(steps: list[list[float]]) -> None:
    latencies = Latencies()
    for step in steps:
        counts = counts_of(step)
        latencies.add(counts.reads, counts.latency_s, counts.latency_s2)
    mean, cv = latencies.mean_and_cv()
    whole, kept = [], 0
    for step in reversed(steps):
        if kept >= LAST_READS:
            break
        whole += step
        kept += len(step)
    assert mean == pytest.approx(np.mean(whole))
    assert cv == pytest.approx(np.std(whole) / np.mean(whole), abs=1e-5)


def test_old_reads_are_forgotten() -> None:
    latencies = Latencies()
    latencies.add(LAST_READS, LAST_READS * 9.0, LAST_READS * 81.0)
    latencies.add(LAST_READS, LAST_READS * 1.0, LAST_READS * 1.0)
    assert latencies.mean_and_cv() == (1.0, 0.0)


def test_nothing_read_is_no_latency() -> None:
    latencies = Latencies()
    latencies.add(0, 0.0, 0.0)
    assert latencies.mean_and_cv() == (0.0, 0.0)


def test_a_step_that_is_waited_for_all_night_takes_no_memory() -> None:
    latencies = Latencies()
    latencies.add(1, 0.5, 0.25)
    for _ in range(10_000):
        latencies.add(0, 0.0, 0.0)
    assert latencies.mean_and_cv() == (0.5, 0.0)
    assert len(latencies._steps) == 1


def test_steps_between_two_reports_are_averaged_and_their_bytes_summed() -> None:
    moments = [
        Moment(3, 13, 0.2, 4, counts_of([0.1], storage_bytes=10)),
        Moment(4, 14, 0.4, 2, counts_of([0.3], storage_bytes=30)),
    ]
    told = of_moments(
        moments,
        latencies=Latencies(),
        step_time_s=1.0,
        queue_capacity=8,
        upcoming_bytes=(1, 2),
        direct_bytes=40,
    )
    assert (told.iteration, told.step) == (4, 14)
    assert told.wait_s == pytest.approx(0.3)
    assert told.queue_depth == 3
    assert told.direct_bytes == 40
    assert told.latency_s == pytest.approx(0.2)


def test_of_several_ranks_the_worst_counts_and_bytes_are_summed() -> None:
    calm = figures(tier_bytes={"hdd": 5}, direct_bytes=1, latency_s=0.1, latency_cv=3.0)
    starved = figures(
        iteration=6,
        wait_s=2.0,
        queue_depth=1.0,
        queue_capacity=4.0,
        tier_bytes={"hdd": 7, "ssd": 1},
        hit_bytes={"ssd": 1},
        cache_bytes=8,
        direct_bytes=2,
        latency_s=0.9,
        latency_cv=0.2,
        upcoming_bytes=(1,),
    )
    host = together([calm, starved])
    assert (host.iteration, host.wait_s) == (6, 2.0)
    assert (host.queue_depth, host.queue_capacity) == (1.0, 4.0)
    assert (host.latency_s, host.latency_cv) == (0.9, 0.2)
    assert host.tier_bytes == {"hdd": 12, "ssd": 1}
    assert host.hit_bytes == {"ssd": 1}
    assert host.cache_bytes == 8
    assert host.direct_bytes == 3
    assert host.upcoming_bytes == (101, 200)


def test_the_order_of_ranks_does_not_matter() -> None:
    ranks = [figures(wait_s=float(n), queue_depth=float(n % 3), latency_s=n / 10) for n in range(5)]
    assert together(ranks) == together(ranks[::-1])


def test_what_could_not_be_told_is_added_to_what_comes_later() -> None:
    whole = later(figures(direct_bytes=3, wait_s=9.0), figures(direct_bytes=4, iteration=7))
    assert (whole.direct_bytes, whole.iteration, whole.wait_s) == (7, 7, 0.0)
    assert later(None, whole) is whole


def test_figures_travel_between_processes() -> None:
    told = figures(tier_bytes={"hdd": 3})
    assert unpack(pack(told)) == told


@given(st.binary(max_size=200))
def test_a_datagram_of_anything_else_is_nothing(data: bytes) -> None:
    known = unpack(data)
    assert known is None or pack(known)


def test_a_queue_without_room_is_empty() -> None:
    assert figures(queue_depth=0.0, queue_capacity=0.0).fullness == 0.0


def test_waiting_on_links_is_waiting_behind_others_and_waiting_for_cores_is_told_apart() -> None:
    counts = counts_of([0.1], queued_s=3.0, cores_s=1.0, link_s=0.5)
    told = of_moments(
        [Moment(3, 13, 0.2, 4, counts)],
        latencies=Latencies(),
        step_time_s=1.0,
        queue_capacity=8,
        upcoming_bytes=(1,),
        direct_bytes=0,
    )
    assert (told.queued_s, told.cores_s) == (2.5, 1.0)
    host = together([told, told])
    assert (host.queued_s, host.cores_s) == (5.0, 2.0)
