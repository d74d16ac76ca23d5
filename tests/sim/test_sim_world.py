"""Runs of the simulated estate whose outcome is known beforehand, and laws that all obey."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import (
    BurstAnnounced,
    BurstEnded,
    HealthReported,
    JobJoined,
    JobLeft,
    SetBurstRate,
    SetQuota,
    SetReordering,
    TierChanged,
)
from headrace.sim.episode import (
    MODES,
    CheckpointBurst,
    CpuContention,
    CrossTraffic,
    Restart,
    Scan,
)
from headrace.sim.estate import HEADRACE, PLAIN, Abilities, Estate
from headrace.sim.job import Dataset, SimulatedJob, batches_of
from headrace.sim.media import Network, SolidState, Spinning
from headrace.sim.world import World

HDD = 12 * 1e6 / 0.013
"""Nominal rate of twelve disks: 8 ms to seek and 5 ms to read a megabyte [B/s]."""

ESTATE = Estate(
    tiers={"ssd": SolidState(), "hdd": Spinning(), "wan": Network(bytes_per_s=100e6)},
    cache_bytes=1e12,
)
JOB = SimulatedJob(
    name="a",
    dataset=Dataset(samples=20_000, mean_bytes=1e6, spread=0.0),
    batch_size=100,
    step_time_s=1.0,
    step_jitter=0.0,
    cached=False,
    streams=64,
    initialise_s=10.0,
)
BATCH = 100e6


class Scripted:
    """Answers some events by prepared actions, and remembers all of them."""

    def __init__(self, **answers):
        self.answers, self.heard = answers, []

    def handle(self, event, now):
        self.heard.append((now, event))
        return self.answers.get(type(event).__name__, lambda _event: [])(event)

    def of(self, kind):
        return [(now, event) for now, event in self.heard if isinstance(event, kind)]


def steps_per_s(recording, *, after_s=100.0):
    return (recording.begun_s > after_s).sum() / (recording.duration_s - after_s)


def test_a_job_that_needs_less_than_there_is_never_waits_after_its_start():
    recording = World(ESTATE, [JOB]).run(400)
    assert steps_per_s(recording) == pytest.approx(1.0, rel=0.02)
    assert recording.wait_s[recording.begun_s > 30].sum() == 0.0


@pytest.mark.parametrize("jobs", [1, 3, 8])
def test_storage_bound_jobs_share_what_the_disks_give(jobs):
    many = [replace(JOB, name=f"j{n}", step_time_s=0.05) for n in range(jobs)]
    recording = World(ESTATE, many, quantum_s=0.1).run(300)
    assert steps_per_s(recording) * BATCH == pytest.approx(HDD, rel=0.02)
    counts = np.bincount(recording.job)
    assert counts.max() - counts.min() <= 1


def test_a_quota_is_what_a_job_gets():
    policy = Scripted(
        JobJoined=lambda e: [SetQuota(job=e.job, tier="hdd", bytes_per_s=40e6, reason="")]
    )
    recording = World(ESTATE, [JOB], policy=policy).run(600)
    assert steps_per_s(recording) * BATCH == pytest.approx(40e6, rel=0.03)
    reports = [event.indicators for _, event in policy.of(HealthReported)][5:]
    assert all(report.throttled_share > 0.8 and report.queue_share < 0.1 for report in reports)
    assert reports[-1].wait_s == pytest.approx(1.5, rel=0.1)


def test_a_quota_is_in_force_one_interval_after_the_decision():
    policy = Scripted(
        HealthReported=lambda e: (
            [SetQuota(job=e.job, tier="hdd", bytes_per_s=0.0, reason="")]
            if e.indicators.iteration == 50
            else []
        )
    )
    recording = World(ESTATE, [JOB], policy=policy, quantum_s=0.25).run(200)
    stopped_s = policy.of(HealthReported)[50][0]
    assert recording.begun_s[-1] == pytest.approx(stopped_s + JOB.queue_batches, abs=2.0)


def test_a_congested_link_shows_as_waiting_in_queues():
    remote = replace(JOB, link="wan", batch_size=50)
    traffic = CrossTraffic(link="wan", at_s=200, until_s=400, bytes_per_s=75e6, label_after_s=50)
    policy = Scripted()
    recording = World(ESTATE, [remote], episodes=[traffic], policy=policy).run(600)
    during = (recording.begun_s > 250) & (recording.begun_s < 400)
    assert during.sum() / 150 == pytest.approx(0.5, rel=0.05)
    label = MODES.index("congestion")
    assert set(recording.mode[(recording.begun_s > 205) & (recording.begun_s < 449)]) == {label}
    assert set(recording.mode[recording.begun_s > 455]) == {0}
    worst = max(event.indicators.queue_share for _, event in policy.of(HealthReported))
    assert worst > 0.8


def test_lack_of_cores_shows_as_transforming():
    decoding = replace(JOB, cpu_s_per_byte=1e-6)
    recorded = Scripted()
    episodes = [CpuContention(at_s=100, until_s=300, cores=200)]
    recording = World(ESTATE, [decoding], episodes=episodes, policy=recorded).run(400)
    during = (recording.begun_s > 150) & (recording.begun_s < 300)
    assert during.sum() / 150 == pytest.approx(0.56, rel=0.05)
    reports = [e.indicators for now, e in recorded.of(HealthReported) if 150 < now < 300]
    assert min(report.transform_share for report in reports) > 0.8
    assert max(report.queue_share for report in reports) < 0.2


def test_a_plain_loader_is_cold_at_its_first_step_and_an_early_one_is_ready():
    restart = Restart(job="a", at_s=100, initialise_s=60)
    cold = World(ESTATE, [JOB], episodes=[restart]).run(300)
    early = World(ESTATE, [JOB], episodes=[restart], abilities=HEADRACE).run(300)
    for recording in (cold, early):
        first = np.flatnonzero(recording.begun_s >= 160)[0]
        assert recording.iteration[first] == 0
        assert set(recording.mode[first : first + 10]) == {MODES.index("cold-start")}
        assert recording.mode[first + 10] == 0
        assert recording.lost_bytes > 0
    assert cold.wait_s[cold.begun_s > 150].sum() > 0.05
    assert early.wait_s[early.begun_s > 150].sum() == 0.0


def test_the_policy_hears_of_tiers_jobs_and_every_iteration():
    policy = Scripted()
    episodes = [Restart(job="a", at_s=100, initialise_s=30)]
    recording = World(ESTATE, [JOB], episodes=episodes, policy=policy).run(200)
    assert {event.tier: event.media for _, event in policy.of(TierChanged)} == {
        "ssd": "ssd",
        "hdd": "hdd",
        "wan": "link",
    }
    joined = policy.of(JobJoined)
    assert [now for now, _ in joined] == [0.0, 100.0]
    assert [event.begins_in_s for _, event in joined] == [10.0, 30.0]
    assert [now for now, _ in policy.of(JobLeft)] == [100.0]
    reports = policy.of(HealthReported)
    assert len(reports) == recording.job.size
    np.testing.assert_array_equal([now for now, _ in reports], recording.begun_s)
    assert [now for now, _ in policy.heard] == sorted(now for now, _ in policy.heard)


def test_reported_batches_are_those_that_do_not_lie_ready():
    varied = replace(JOB, dataset=replace(JOB.dataset, spread=1.0))
    policy = Scripted()
    World(ESTATE, [varied], policy=policy).run(100)
    batches = batches_of(varied)
    for number, (_, event) in enumerate(policy.of(HealthReported)):
        seen = event.indicators
        first = number + max(1, int(seen.queue_depth))
        assert (seen.next_bytes, *seen.upcoming_bytes) == batches.ahead(first, 8)


def test_a_scan_evicts_a_page_cache_and_only_that():
    cached = replace(JOB, cached=True, warm=1.0, batch_size=20)
    small = replace(ESTATE, cache_bytes=25e9)
    scan = Scan(at_s=200, until_s=1200, bytes_per_s=300e6)
    outcome = {}
    for name, abilities in (("plain", PLAIN), ("ours", HEADRACE)):
        run = World(small, [cached], episodes=[scan], abilities=abilities).run(1200)
        outcome[name] = run.hit_rate[run.begun_s > 900].mean()
    assert outcome["ours"] > 0.95
    assert outcome["plain"] < 0.5


def test_reordered_reads_of_hard_disks_come_faster():
    policy = Scripted(
        HealthReported=lambda e: (
            [SetReordering(job=e.job, enabled=True, reason="")]
            if e.indicators.iteration == 0
            else []
        )
    )
    hungry = replace(JOB, step_time_s=0.05)
    able = Abilities(reordering=True)
    plain = World(ESTATE, [hungry], policy=policy, abilities=PLAIN, quantum_s=0.1).run(200)
    merged = World(ESTATE, [hungry], policy=policy, abilities=able, quantum_s=0.1).run(200)
    assert steps_per_s(merged) > 2.0 * steps_per_s(plain)


def test_a_checkpoint_obeys_the_rate_that_it_is_given():
    burst = CheckpointBurst(
        job="a",
        burst="c1",
        tier="hdd",
        at_s=50,
        nbytes=10e9,
        deadline_s=100,
        most_bytes_per_s=500e6,
    )

    def slower(event):
        return [SetBurstRate(job="a", burst="c1", tier="hdd", bytes_per_s=50e6, reason="")]

    policy = Scripted(BurstAnnounced=slower)
    recording = World(ESTATE, [JOB], episodes=[burst], policy=policy, abilities=HEADRACE).run(400)
    assert [now for now, _ in policy.of(BurstAnnounced)] == [50.0]
    assert policy.of(BurstEnded)[0][0] == pytest.approx(250.0, abs=1.0)
    assert recording.bursts_late_s == pytest.approx((100.0,), abs=1.0)
    untold = World(ESTATE, [JOB], episodes=[burst], policy=Scripted()).run(400)
    assert untold.bursts_late_s == (0.0,)


def mixed_run(*, quantum_s=0.5, seed=1, policy=None, until_s=1200.0):
    jobs = [
        replace(
            JOB,
            name=f"j{n}",
            dataset=Dataset(samples=30_000, mean_bytes=1e6, seed=n),
            batch_size=280,
            step_time_s=2.0 + 0.4 * n,
            step_jitter=0.05,
            cached=n % 2 == 0,
            warm=0.5,
            seed=n,
            link="wan" if n == 3 else None,
        )
        for n in range(9)
    ]
    episodes = [
        Restart(job="j1", at_s=300, initialise_s=60),
        Restart(job="j4", at_s=400, initialise_s=90),
        Scan(at_s=450, until_s=800, bytes_per_s=300e6),
        CrossTraffic(link="wan", at_s=700, until_s=1000, bytes_per_s=50e6),
    ]
    world = World(
        replace(ESTATE, cache_bytes=60e9),
        jobs,
        episodes=episodes,
        seed=seed,
        quantum_s=quantum_s,
        policy=policy,
    )
    return world.run(until_s)


def test_what_is_read_is_what_batches_hold():
    recording = mixed_run()
    read = sum(n for tier, n in recording.read_bytes.items() if tier != "wan")
    consumed = recording.nbytes.sum()
    assert read == pytest.approx(consumed + recording.queued_bytes + recording.lost_bytes)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    first, again, other = mixed_run(), mixed_run(), mixed_run(seed=2)
    np.testing.assert_array_equal(first.begun_s, again.begun_s)
    assert first.begun_s.shape != other.begun_s.shape or (first.begun_s != other.begun_s).any()


def test_results_do_not_depend_on_the_quantum():
    waits = {q: mixed_run(quantum_s=q).wait_s for q in (0.25, 0.5, 1.0)}
    fine = waits[0.25].mean()
    assert fine > 0.05
    for quantum_s, within in ((0.5, 0.03), (1.0, 0.06)):
        assert waits[quantum_s].mean() == pytest.approx(fine, rel=within), quantum_s


def test_a_world_without_jobs_or_with_two_of_one_name_is_refused():
    for jobs in ([], [JOB, JOB]):
        with pytest.raises(ConfigError, match="a name of its own"):
            World(ESTATE, jobs)
    with pytest.raises(ConfigError, match="names job 'b'"):
        World(ESTATE, [JOB], episodes=[Restart(job="b", at_s=0)])
