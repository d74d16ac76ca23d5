"""What episodes take of the estate, and how long they are the truth about an iteration."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigError
from headrace.sim.episode import (
    MODES,
    CheckpointBurst,
    CpuContention,
    CrossTraffic,
    Restart,
    Scan,
)
from headrace.sim.estate import Estate
from headrace.sim.job import Dataset, SimulatedJob
from headrace.sim.media import Network, SolidState, Spinning
from headrace.sim.mishaps import LEAST_LEFT, Mishaps
from headrace.sim.paths import Paths

ESTATE = Estate(
    tiers={"ssd": SolidState(), "hdd": Spinning(), "wan": Network(bytes_per_s=1e9)}, cpu_cores=100.0
)
DATA = Dataset(samples=100, mean_bytes=1e6)
JOBS = [
    SimulatedJob(name="near", dataset=DATA, batch_size=4, step_time_s=1.0, cpu_s_per_byte=1e-8),
    SimulatedJob(name="far", dataset=DATA, batch_size=4, step_time_s=1.0, link="wan", cached=False),
]
SSD, HDD, WAN, CORES = range(4)


def mishaps(*episodes):
    return Mishaps(episodes, JOBS, Paths(ESTATE, JOBS))


def modes(what, now, *, iteration=100):
    return tuple(named(what.truths(job, iteration, now)) for job in range(2))


def named(truths):
    return "+".join(mode for n, mode in enumerate(MODES) if truths & 1 << n) or "none"


def test_cross_traffic_takes_of_its_link_and_is_the_truth_for_jobs_behind_it():
    what = mishaps(CrossTraffic(link="wan", at_s=10, until_s=20, bytes_per_s=4e8, label_after_s=5))
    what.due(9.0)
    assert what.capacity[WAN] == 1e9
    what.due(10.0)
    assert what.capacity[WAN] == pytest.approx(6e8)
    assert modes(what, 24.9) == ("none", "congestion")
    what.due(20.0)
    assert what.capacity[WAN] == 1e9
    assert modes(what, 25.0) == ("none", "none")


def test_a_scan_takes_of_the_disks_and_is_the_truth_for_jobs_that_use_the_cache():
    what = mishaps(Scan(at_s=0, until_s=20, bytes_per_s=1e8, cached=0.5))
    before = what.capacity[HDD]
    what.due(0.0)
    assert what.capacity[HDD] == pytest.approx(before - 1e8)
    assert what.scan_bytes_per_s == pytest.approx(5e7)
    assert modes(what, 1.0) == ("thrash", "none")


def test_episodes_at_one_time_add_up_and_always_leave_something():
    loads = [CpuContention(at_s=0, until_s=9, cores=cores) for cores in (40.0, 30.0)]
    what = mishaps(*loads)
    what.due(0.0)
    assert what.capacity[CORES] == pytest.approx(30.0)
    assert modes(what, 1.0) == ("transform-bound", "none")
    flood = mishaps(*loads, *loads)
    flood.due(0.0)
    assert flood.capacity[CORES] == pytest.approx(LEAST_LEFT * 100.0)


def test_of_one_iteration_several_things_can_be_true():
    scan = Scan(at_s=0, until_s=20, bytes_per_s=1e8)
    what = mishaps(scan, CpuContention(at_s=0, until_s=9, cores=40.0))
    what.due(0.0)
    what.started(0, Restart(job="near", at_s=0, label_iterations=3))
    assert modes(what, 1.0, iteration=2)[0] == "cold-start+thrash+transform-bound"
    assert modes(what, 10.0)[0] == "thrash"


def test_a_restart_befalls_its_job_once_and_its_first_iterations_are_cold():
    restart = Restart(job="near", at_s=5, label_iterations=3)
    what = mishaps(restart)
    assert what.due(4.0) == []
    assert what.due(5.0) == [restart]
    assert what.due(6.0) == []
    what.started(0, restart)
    assert [modes(what, 7.0, iteration=n)[0] for n in (0, 2, 3)] == ["cold-start"] * 2 + ["none"]


@pytest.mark.parametrize(
    ("episode", "named"),
    [
        (Restart(job="nobody", at_s=0), "job 'nobody'"),
        (Scan(at_s=0, until_s=1, bytes_per_s=1, jobs=("nobody",)), "job 'nobody'"),
        (CrossTraffic(link="lan", at_s=0, until_s=1, bytes_per_s=1), "tier 'lan'"),
        (
            CheckpointBurst(
                job="near",
                burst="c",
                tier="tape",
                at_s=0,
                nbytes=1,
                deadline_s=1,
                most_bytes_per_s=1,
            ),
            "tier 'tape'",
        ),
    ],
)
def test_an_episode_that_names_what_is_not_there_is_refused(episode, named):
    with pytest.raises(ConfigError, match=named):
        mishaps(episode)
