"""Draws what goes wrong in a scenario: Poisson arrivals from its seed, alike for all policies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from headrace.sim.episode import (
    CheckpointBurst,
    CpuContention,
    CrossTraffic,
    Episode,
    Restart,
    Scan,
)
from headrace.sim.job import SimulatedJob
from headrace.sim.scenario import DAY_S, HOUR_S, Between, Congestion, Scenario

SETTLED_S = 1800.0
"""Nothing goes wrong before: all jobs start, queues and caches fill [s]."""

_RESTARTS, _SCANS, _CONGESTION, _CPU, _CHECKPOINTS = range(1, 6)
"""Each kind draws from its own stream, so that the rate of one does not move another."""


def draw_episodes(scenario: Scenario) -> tuple[Episode, ...]:
    """Return all that goes wrong, in order of time."""
    jobs = scenario.jobs()
    episodes = chain(
        chain.from_iterable(_restarts(scenario, place, job) for place, job in enumerate(jobs)),
        _scans(scenario),
        chain.from_iterable(_traffic(scenario, place) for place in range(_links(scenario))),
        _cpu(scenario),
        chain.from_iterable(_checkpoints(scenario, place, job) for place, job in enumerate(jobs)),
    )
    return tuple(sorted(episodes, key=lambda episode: episode.at_s))


def _restarts(scenario: Scenario, place: int, job: SimulatedJob) -> Iterator[Episode]:
    group, what = scenario.group_of(job.name), scenario.troubles.restarts
    rng = _stream(scenario, _RESTARTS, place)
    for at_s in _arrivals(rng, group.restarts_every_h * HOUR_S, scenario.duration_s):
        yield Restart(
            job=job.name,
            at_s=at_s,
            initialise_s=_between(rng, group.initialise_s),
            latency_factor=_between(rng, what.latency_factor),
            cold_bytes=_between(rng, what.cold_bytes),
            cache_lost=_between(rng, what.cache_lost),
            label_iterations=what.label_iterations,
        )


def _scans(scenario: Scenario) -> Iterator[Episode]:
    what = scenario.troubles.scans
    rng = _stream(scenario, _SCANS, 0)
    for at_s in _arrivals(rng, _every_s(what.per_day), scenario.duration_s):
        yield Scan(
            at_s=at_s,
            until_s=at_s + _between(rng, what.duration_s),
            bytes_per_s=_between(rng, what.bytes_per_s),
            label_after_s=what.label_after_s,
        )


def _traffic(scenario: Scenario, place: int) -> Iterator[Episode]:
    what = scenario.troubles.congestion
    link, bytes_per_s = list(scenario.hardware.links.items())[place]
    rng = _stream(scenario, _CONGESTION, place)
    for at_s in _arrivals(rng, _every_s(what.per_day), scenario.duration_s):
        for begin_s, end_s in _pulses(rng, at_s, what):
            yield CrossTraffic(
                link=link,
                at_s=begin_s,
                until_s=end_s,
                bytes_per_s=bytes_per_s * _between(rng, what.share),
                label_after_s=what.label_after_s,
            )


def _pulses(
    rng: np.random.Generator, at_s: float, what: Congestion
) -> Iterator[tuple[float, float]]:
    """Yield begin and end of a spell's pulses."""
    until_s = at_s + _between(rng, what.duration_s)
    while at_s < until_s:
        end_s = at_s + _between(rng, what.pulse_s)
        yield at_s, end_s
        at_s = end_s + _between(rng, what.gap_s)


def _cpu(scenario: Scenario) -> Iterator[Episode]:
    what = scenario.troubles.cpu
    rng = _stream(scenario, _CPU, 0)
    for at_s in _arrivals(rng, _every_s(what.per_day), scenario.duration_s):
        yield CpuContention(
            at_s=at_s,
            until_s=at_s + _between(rng, what.duration_s),
            cores=scenario.hardware.cpu_cores * _between(rng, what.share),
            label_after_s=what.label_after_s,
        )


def _checkpoints(scenario: Scenario, place: int, job: SimulatedJob) -> Iterator[Episode]:
    """Yield a job's checkpoints, at even distances from a first one that is drawn."""
    group, how = scenario.group_of(job.name), scenario.troubles.checkpoints
    if group.checkpoint_every_s == 0 or group.checkpoint_bytes == 0:
        return
    first_s = _stream(scenario, _CHECKPOINTS, place).uniform(0.0, group.checkpoint_every_s)
    times = np.arange(SETTLED_S + first_s, scenario.duration_s, group.checkpoint_every_s)
    for number, at_s in enumerate(times.tolist()):
        yield CheckpointBurst(
            job=job.name,
            burst=f"checkpoint-{number}",
            tier=how.tier,
            at_s=at_s,
            nbytes=group.checkpoint_bytes,
            deadline_s=how.deadline_s,
            most_bytes_per_s=how.most_bytes_per_s,
        )


def _links(scenario: Scenario) -> int:
    return len(scenario.hardware.links)


def _stream(scenario: Scenario, kind: int, place: int) -> np.random.Generator:
    return np.random.default_rng([scenario.seed, kind, place])


def _every_s(per_day: float) -> float:
    return DAY_S / per_day if per_day > 0 else 0.0


def _arrivals(rng: np.random.Generator, mean_s: float, until_s: float) -> Iterator[float]:
    """Yield Poisson arrivals; never where the mean distance is 0."""
    at_s = SETTLED_S
    while mean_s > 0:
        at_s += float(rng.exponential(mean_s))
        if at_s >= until_s:
            return
        yield at_s


def _between(rng: np.random.Generator, bounds: Between) -> float:
    return float(rng.uniform(*bounds))
