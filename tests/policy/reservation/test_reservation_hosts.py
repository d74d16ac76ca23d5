"""Reports of many hosts become iterations of one job."""

from __future__ import annotations

import pytest
from arbiter_books import report

from headrace.policy.reservation.arbiter import Arbiter
from headrace.policy.reservation.diagnosis import DiagnosisLimits
from headrace.policy.reservation.events import Diagnosed, JobJoined, JobLeft
from headrace.policy.reservation.health import HealthLimits
from headrace.policy.reservation.hosts import Hosts


def hosts(expected: int) -> Hosts:
    """Return the hosts of a job that announced so many."""
    return Hosts(expected, HealthLimits(), DiagnosisLimits())


def tell(job: Hosts, host: str, iteration: int, now: float, **looks: float) -> bool:
    """Hand over a report; return whether an iteration is over."""
    event = report("a", iteration, host=host, **looks)  # type: ignore[arg-type]
    return job.report(host, event.indicators, now)


def test_every_report_of_a_single_host_ends_an_iteration() -> None:
    job = hosts(1)
    assert [tell(job, "h0", k, float(k)) for k in range(3)] == [True] * 3


def test_an_iteration_is_over_when_all_hosts_reported_it() -> None:
    job = hosts(3)
    assert [tell(job, f"h{k}", 0, 0.1 * k) for k in range(3)] == [False, False, True]


def test_an_iteration_is_over_when_somebody_reports_the_next() -> None:
    job = hosts(3)
    tell(job, "h0", 0, 0.0)
    assert tell(job, "h0", 1, 1.0)


def test_a_host_that_is_dead_is_not_waited_for_any_more() -> None:
    job = hosts(2)
    tell(job, "h0", 0, 0.0)
    tell(job, "h1", 0, 0.0)
    ends = [tell(job, "h0", k, float(k)) for k in range(1, 8)]
    assert ends[:2] == [False, True]
    assert all(ends[4:])


def test_a_host_that_left_counts_no_more_after_a_minute() -> None:
    job = hosts(2)
    for k in range(3):
        tell(job, "h0", k, float(k), nbytes=100.0)
        tell(job, "h1", k, float(k), nbytes=100.0)
    needs = {}
    for k in range(3, 70):
        tell(job, "h0", k, float(k), nbytes=100.0)
        needs[k] = job.reading().upcoming[0]
    assert needs[60] == 200.0, "it may only have lost its reports"
    assert (needs[69], len(job)) == (100.0, 1)


def test_slow_steps_are_given_time_before_a_host_counts_no_more() -> None:
    job = hosts(2)
    tell(job, "h0", 0, 0.0, step_s=30.0)
    tell(job, "h1", 0, 0.0, step_s=30.0)
    for k in range(1, 10):
        tell(job, "h0", k, 30.0 * k, step_s=30.0)
    assert len(job) == 2


def test_a_job_that_says_it_has_fewer_hosts_needs_no_more_than_those() -> None:
    job = hosts(4)
    for k in range(4):
        tell(job, f"h{k}", 0, 0.1 * k, nbytes=100.0)
    tell(job, "h1", 1, 1.0, nbytes=100.0)
    tell(job, "h3", 1, 1.1, nbytes=100.0)
    job.expect(2)
    tell(job, "h1", 2, 2.0, nbytes=100.0)
    assert tell(job, "h3", 2, 2.1, nbytes=100.0)
    assert job.reading().upcoming[0] == 200.0


def test_a_report_that_comes_twice_counts_once() -> None:
    job = hosts(2)
    tell(job, "h0", 0, 0.0)
    assert not tell(job, "h0", 0, 0.1)
    assert tell(job, "h1", 0, 0.2)


def test_the_job_is_as_well_as_its_worst_host_and_reads_what_all_read() -> None:
    job = hosts(2)
    tell(job, "h0", 0, 0.0, depth=8.0, nbytes=100.0, wait_s=0.0)
    tell(job, "h1", 0, 0.0, depth=1.0, nbytes=300.0, wait_s=0.5)
    joint = job.reading()
    assert (joint.queue_depth, joint.wait_s) == (1.0, 0.5)
    assert joint.upcoming[0] == 400.0
    assert joint.read_bytes_per_s == pytest.approx(100.0 + 200.0)
    assert job.worst().indicators.queue_depth == 1.0


def test_parts_by_tier_are_weighted_with_what_each_host_read() -> None:
    job = hosts(2)
    job.report("h0", report("a", 0, nbytes=300.0, split={"ssd": 1.0}).indicators, 0.0)
    job.report("h1", report("a", 0, nbytes=100.0, split={"hdd": 1.0}).indicators, 0.0)
    assert job.reading().split == {"ssd": pytest.approx(0.75), "hdd": pytest.approx(0.25)}


def test_a_host_that_begins_anew_is_learnt_anew() -> None:
    job = hosts(1)
    for iteration in range(5):
        tell(job, "h0", iteration, float(iteration), depth=0.0)
    tell(job, "h0", 0, 9.0, depth=8.0)
    assert job.worst().health.score == 100.0


def test_a_jobs_next_run_begins_without_hosts_but_knows_what_is_usual_for_them() -> None:
    job = hosts(1)
    for iteration in range(50):
        tell(job, "h0", iteration, float(iteration), depth=8.0)
    again = job.of_next_run(1).of_next_run(1)
    assert len(again) == 0
    tell(again, "h0", 0, 60.0, depth=8.0)
    tell(again, "h1", 0, 60.0, depth=8.0)
    usual_s = [host.health.usual_latency_s for host in again.fresh()]
    assert usual_s[0] == job.worst().health.usual_latency_s > 0


def test_a_job_that_comes_back_is_judged_by_what_is_usual_for_its_hosts() -> None:
    arbiter = Arbiter()
    arbiter.handle(JobJoined(job="a"), 0.0)
    for step in range(50):
        arbiter.handle(report("a", step), float(step))
    arbiter.handle(JobLeft(job="a"), 50.0)
    arbiter.handle(JobJoined(job="a"), 200.0)
    said = arbiter.handle(report("a", 0, depth=0.0, io_latency_s=0.04), 201.0)
    reasons = [action.reason for action in said if isinstance(action, Diagnosed)]
    assert len(reasons) == 1
    assert "I/Os take 4.0 times the usual" in reasons[0]
