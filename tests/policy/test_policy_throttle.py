"""Quotas in the consumer queue: who is held back, for how long, and who is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_for_tests import MB, Bench, Steps

from headrace.policy.lookahead_events import (
    Action,
    AskCancelled,
    Asked,
    Finished,
    JobChanged,
    JobRemoved,
    QuotasChanged,
    Read,
    ReadAsked,
    ReadWithdrawn,
    Serve,
    ServeRaw,
    Start,
    Tick,
)

KB = 1000
BURST_S = 0.25


def quota(bench: Bench, at: float | None = None, **jobs: float) -> list[Action]:
    """Set quotas on the tier ``hdd`` [B/s]."""
    rates = {job: {"hdd": rate} for job, rate in jobs.items()}
    return bench.tell(QuotasChanged(quotas=rates), at)


def run(bench: Bench, until: float) -> list[tuple[float, Start]]:
    """Let time pass, with workers that finish at once; return what was started when."""
    started: list[tuple[float, Start]] = []
    while True:
        if bench.started:
            started.append((bench.now, bench.started[0]))
            bench.finish(bench.started[0], nbytes=1000)
            continue
        at = bench.queue.wake_at()
        if at is None or at > until:
            bench.now = until
            return started
        bench.tell(Tick(), max(at, bench.now))


def test_a_job_without_a_quota_is_not_held() -> None:
    bench = Bench(workers=2)
    bench.job(plan=Steps())
    quota(bench, other=1.0)
    assert not bench.queue.limits("job")
    assert len(bench.started) == 2
    assert bench.queue.wake_at() is None


def test_a_job_whose_quota_is_used_up_takes_no_worker_and_the_others_go_on() -> None:
    bench = Bench(workers=4)
    quota(bench, held=100 * KB)
    bench.job("held", Steps(width=8))
    assert [start.visit.job for start in bench.started] == ["held"]
    assert bench.queue.holds_back("held")
    bench.job("free", Steps(width=8))
    assert sorted(start.visit.job for start in bench.started) == ["free"] * 3 + ["held"]


def test_it_goes_on_when_what_it_owes_is_paid_and_says_how_long_it_was_held() -> None:
    bench = Bench(workers=4)
    quota(bench, job=100 * KB)
    bench.job(plan=Steps(width=8))
    assert bench.queue.wake_at() == pytest.approx(1.0)
    assert bench.tell(Tick(), 0.9) == []
    (second,) = bench.tell(Tick(), 1.0)
    assert isinstance(second, Start)
    assert second.throttled_s == pytest.approx(1.0)
    assert bench.started[0].throttled_s == 0.0


def test_a_job_is_said_to_be_held_back_also_while_others_keep_all_workers_busy() -> None:
    bench = Bench(workers=1)
    quota(bench, held=100 * KB)
    bench.job("held", Steps(width=8))
    bench.finish(bench.started[0], nbytes=1000)
    assert bench.queue.holds_back("held")
    bench.job("free", Steps(width=8))
    assert [start.visit.job for start in bench.started] == ["free"]
    bench.tell(Tick(), 0.5)
    assert bench.queue.holds_back("held")
    assert not bench.queue.holds_back("free")
    quota(bench)
    bench.finish(bench.started[0], nbytes=1000)
    assert not bench.queue.holds_back("held")


def test_samples_behind_one_that_is_held_were_held_as_long_as_somebody_waited_for_them() -> None:
    bench = Bench(workers=4)
    quota(bench, job=100 * KB)
    bench.job(plan=Steps(width=4))
    bench.ask(0, 0, 1, 2, 3, wait_s=100.0)
    held = [start.throttled_s for _, start in run(bench, 4.0)][:4]
    assert held == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_what_was_saved_up_starts_at_once_but_no_more() -> None:
    bench = Bench(workers=50)
    quota(bench, job=2000 * KB)
    bench.job(plan=Steps(width=40))
    quota(bench, at=100.0, job=2000 * KB)
    begun = len(bench.started)
    assert begun <= 2000 * BURST_S / 100 + 2


@pytest.mark.parametrize("rate", [200 * KB, 1000 * KB])
def test_over_time_a_job_reads_at_its_quota(rate: float) -> None:
    bench = Bench(workers=4)
    quota(bench, job=rate)
    bench.job(plan=Steps(width=400))
    started = run(bench, until=20.0)
    assert len(started) * 100 * KB == pytest.approx(rate * 20, rel=0.03)


def test_two_jobs_read_in_the_ratio_of_their_quotas() -> None:
    bench = Bench(workers=4)
    quota(bench, one=750 * KB, two=250 * KB)
    bench.job("one", Steps(width=400))
    bench.job("two", Steps(width=400))
    jobs = [start.visit.job for _, start in run(bench, until=20.0)]
    assert jobs.count("one") / jobs.count("two") == pytest.approx(3.0, rel=0.05)


def test_a_change_is_in_force_at_once() -> None:
    bench = Bench(workers=4)
    quota(bench, job=1000 * KB)
    bench.job(plan=Steps(width=800))
    before = len(run(bench, until=10.0))
    quota(bench, at=10.0, job=500 * KB)
    halved = len(run(bench, until=20.0))
    assert halved == pytest.approx(before / 2, rel=0.1)
    bench.tell(QuotasChanged(quotas={}), 20.0)
    assert len(run(bench, until=20.0)) > before


def test_only_the_tier_that_a_sample_lies_on_counts() -> None:
    bench = Bench(workers=4)
    quota(bench, job=1.0)
    bench.job(plan=Steps(width=8, tiers=dict.fromkeys(range(8), "ssd")))
    assert len(bench.started) == 4


def test_a_sample_that_is_waited_for_is_not_sent_raw_while_the_quota_holds_it() -> None:
    bench = Bench(workers=1)
    quota(bench, job=100 * KB)
    bench.job(plan=Steps(width=4))
    bench.finish(bench.started[0])
    assert [type(action) for action in bench.ask(0, 0, 1, wait_s=0.5)] == [Serve]
    while not bench.started:
        actions = bench.tell(Tick(), bench.queue.wake_at())
        assert not any(isinstance(action, ServeRaw) for action in actions)
    bench.finish(bench.started[0])
    assert bench.now == pytest.approx(1.0)


def test_one_that_a_busy_worker_keeps_waiting_is_sent_raw_as_before() -> None:
    bench = Bench(workers=1)
    quota(bench, job=10_000 * KB)
    bench.job(plan=Steps(width=4))
    bench.ask(0, 1, wait_s=0.5)
    bench.tell(Tick(), 0.3)
    actions = bench.tell(Tick(), 0.5)
    assert [action.code for action in actions if isinstance(action, ServeRaw)] == ["late"]


def test_reads_that_somebody_waits_for_go_in_order_and_before_what_is_only_foreseen() -> None:
    bench = Bench(workers=1)
    quota(bench, job=100 * KB)
    bench.job(plan=Steps(width=8))
    bench.finish(bench.started[0])
    for read in (1, 2):
        assert bench.tell(ReadAsked(read=read, job="job", tier="hdd", nbytes=50_000, step=0)) == []
    assert bench.tell(Tick(), 1.0) == [Read(read=1)]
    assert bench.queue.holds_back("job")
    assert [type(action) for action in bench.tell(Tick(), 1.5)] == [Read]
    assert [type(action) for action in bench.tell(Tick(), 2.0)] == [Start]


def test_reads_for_earlier_steps_go_first() -> None:
    bench = Bench()
    quota(bench, job=100 * KB)
    for read, step in ((1, 5), (2, 6), (3, 5), (4, 4)):
        bench.tell(ReadAsked(read=read, job="job", tier="hdd", nbytes=100_000, step=step))
    let_go = [bench.tell(Tick(), float(second)) for second in (1, 2, 3)]
    assert let_go == [[Read(read=4)], [Read(read=3)], [Read(read=2)]]


def test_a_read_that_is_withdrawn_costs_nothing() -> None:
    bench = Bench()
    quota(bench, job=100 * KB)
    for read in (1, 2, 3):
        bench.tell(ReadAsked(read=read, job="job", tier="hdd", nbytes=100_000, step=0))
    bench.tell(ReadWithdrawn(read=2))
    bench.tell(ReadWithdrawn(read=1))
    assert bench.tell(Tick(), 1.0) == [Read(read=3)]
    assert bench.queue.wake_at() is None


def test_reads_of_a_quota_that_is_lifted_wait_no_more() -> None:
    bench = Bench()
    quota(bench, job=0.0)
    bench.tell(ReadAsked(read=1, job="job", tier="hdd", nbytes=1, step=0))
    bench.tell(ReadAsked(read=2, job="job", tier="hdd", nbytes=1, step=0))
    assert bench.queue.wake_at() is None
    assert bench.tell(QuotasChanged(quotas={}), 5.0) == [Read(read=2)]
    assert bench.tell(ReadAsked(read=3, job="job", tier="hdd", nbytes=1, step=0)) == [Read(read=3)]


def test_the_quotas_in_force_are_told() -> None:
    bench = Bench()
    quota(bench, job=1.0 * MB)
    assert bench.queue.quotas() == {"job": {"hdd": 1.0 * MB}}


def test_a_late_sample_waits_for_the_quota_of_its_own_tier_and_for_no_other() -> None:
    bench = Bench(workers=1)
    bench.tell(QuotasChanged(quotas={"job": {"hdd": 1.0 * KB, "ssd": 100.0 * MB}}))
    bench.job(plan=Steps(width=3, tiers={2: "ssd"}))
    bench.finish(bench.started[0])
    bench.ask(0, 1, 2, wait_s=0.5)
    actions = bench.tell(Tick(), 0.5)
    assert [action.visit.sample for action in actions if isinstance(action, ServeRaw)] == [2]


def test_a_job_that_is_removed_while_its_quota_holds_a_request_is_forgotten() -> None:
    bench = Bench(workers=2)
    quota(bench, job=1.0)
    bench.job(plan=Steps())
    bench.ask(9, 5)
    assert bench.queue.holds_back("job")
    (answer,) = bench.tell(JobRemoved(job="job"))
    assert isinstance(answer, ServeRaw)
    assert bench.tell(Tick(), 5.0) == []


def test_a_request_that_leaves_while_it_is_held_is_forgotten() -> None:
    bench = Bench(workers=1)
    quota(bench, job=1 * KB)
    bench.job(plan=Steps(width=2))
    bench.finish(bench.started[0])
    bench.ask(0, 1, wait_s=0.5)
    bench.tell(AskCancelled(request=1))
    assert bench.queue.statistics().waited == 0


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rate=st.integers(50, 5000))
def test_no_window_sees_more_than_the_quota_the_burst_and_one_item(
    data: st.DataObject, rate: int
) -> None:
    bench = Bench(workers=3)
    taken: list[tuple[float, int]] = []
    quota(bench, job=rate * KB)
    bench.tell(JobChanged(job="job", plan=Steps(width=50), start_step=0, step_time_s=0.1))
    reads: dict[int, int] = {}
    for number in range(data.draw(st.integers(1, 60))):
        at = bench.now + data.draw(st.floats(0.0, 0.4))
        kind = data.draw(st.sampled_from(["tick", "ask", "read", "finish"]))
        if kind == "read":
            reads[number] = data.draw(st.integers(1, 300_000))
            asked = ReadAsked(read=number, job="job", tier="hdd", nbytes=reads[number], step=number)
            actions = bench.tell(asked, at)
        elif kind == "ask":
            actions = bench.tell(
                Asked(
                    request=number, job="job", step=1, rank=0, world=1, samples=[50 + number],
                    epochs=[0], consumed_step=0, step_time_s=0.1, wait_s=0.2,
                ), at,
            )  # fmt: skip
        elif kind == "finish" and bench.started:
            start = bench.started.pop(0)
            actions = bench.tell(Finished(ticket=start.ticket, nbytes=1000, seconds=0.01), at)
        else:
            actions = bench.tell(Tick(), at)
        for action in actions:
            if isinstance(action, Start):
                taken.append((at, 100_000))
            elif isinstance(action, Read):
                taken.append((at, reads[action.read]))
    for first, (begin, _) in enumerate(taken):
        total = 0
        for end, nbytes in taken[first:]:
            total += nbytes
            assert total <= rate * KB * (BURST_S + end - begin) + nbytes + 2
