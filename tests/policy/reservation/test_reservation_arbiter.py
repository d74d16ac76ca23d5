"""The arbiter: who gets how much, who borrows, and why."""

from __future__ import annotations

import pytest
from arbiter_books import Books, refusals, report

from headrace.core.errors import ReportError
from headrace.policy.reservation.events import (
    BurstAnnounced,
    BurstEnded,
    Diagnosed,
    JobJoined,
    JobLeft,
    Lend,
    Reclaim,
    SetQuota,
    SetReordering,
    Tick,
    TierChanged,
)
from headrace.policy.reservation.limits import ReservationLimits

GB = 1e9


def estate(*jobs: str, ssd: float = GB, hdd: float = 0.0, **settings: object) -> Books:
    """Return books of an estate with these jobs, which said nothing of their needs."""
    books = Books(ReservationLimits(**settings))  # type: ignore[arg-type]
    books.tell(TierChanged(tier="ssd", media="ssd", bytes_per_s=ssd))
    if hdd:
        books.tell(TierChanged(tier="hdd", media="hdd", bytes_per_s=hdd))
    for job in jobs:
        books.tell(JobJoined(job=job))
    return books


def run(books: Books, iterations: range, **jobs: dict[str, object]) -> None:
    """Let jobs report once a second."""
    for iteration in iterations:
        for job, looks in jobs.items():
            books.tell(report(job, iteration, **looks), now=float(iteration + 1))  # type: ignore[arg-type]
        books.tell(Tick(), now=iteration + 1.5)


def test_a_single_job_has_the_whole_tier() -> None:
    assert estate("a").quota("a") == pytest.approx(GB, rel=0.01)


def test_jobs_of_which_nothing_is_known_share_evenly_by_weight() -> None:
    books = estate("a")
    books.tell(JobJoined(job="b", weight=3.0))
    assert books.quota("b") == pytest.approx(3 * books.quota("a"), rel=0.02)


def test_nobody_is_throttled_while_a_tier_idles() -> None:
    books = estate("a", "b")
    run(books, range(5), a={"nbytes": 10e6}, b={"nbytes": 300e6})
    assert books.quota("b") >= 300e6
    assert books.given("ssd") >= 0.9 * GB


def test_a_job_whose_next_batches_are_large_gets_more_before_its_queue_falls() -> None:
    books = estate("a", "b", ssd=0.4 * GB)
    run(books, range(4), a={"nbytes": 180e6}, b={"nbytes": 180e6})
    before = books.quota("a")
    large = {"nbytes": 180e6, "upcoming": [900e6] * 7, "depth": 2.0}
    run(books, range(4, 8), a=large, b={"nbytes": 180e6})
    assert books.quota("a") > 1.2 * before


def test_a_deep_queue_lends_to_a_shallow_one() -> None:
    books = estate("deep", "shallow", ssd=0.15 * GB)
    run(books, range(8), deep={"depth": 8.0}, shallow={"depth": 1.0, "wait_s": 0.2})
    assert books.quota("shallow") > books.quota("deep") > 0


def test_a_job_in_need_borrows_and_the_loan_ends_with_its_timer() -> None:
    books = estate("a", "b", ssd=0.25 * GB)
    starved = {"nbytes": 200e6, "depth": 0.0, "wait_s": 0.5}
    run(books, range(1), a=starved, b={})
    (loan,) = [x for x in books.actions if isinstance(x, Lend)]
    assert (loan.job, loan.iterations) == ("a", 3)
    assert "lacks" in loan.reason
    run(books, range(1, 5), a=starved, b={})
    (ended,) = [x for x in books.actions if isinstance(x, Reclaim) and x.loan == loan.loan]
    assert "3 iterations" in ended.reason
    assert books.lent("a") > 0, "it still is in need and asked again"


def test_a_job_that_falls_silent_loses_its_loan() -> None:
    books = estate("a", "b", ssd=0.25 * GB)
    run(books, range(1), a={"nbytes": 200e6, "depth": 0.0}, b={})
    assert books.lent("a") > 0
    for second in range(2, 70):
        books.tell(Tick(), now=float(second))
    assert books.lent("a") == 0.0


def test_a_transform_bound_job_does_not_borrow_and_is_told_why() -> None:
    books = estate("a", "b", ssd=0.25 * GB)
    bound = {"depth": 0.0, "wait_s": 3.0, "transform_share": 0.97, "nbytes": 200e6}
    run(books, range(12), a=bound, b={"nbytes": 150e6})
    assert books.lent("a") == 0.0
    assert any("bandwidth cannot help" in reason for reason in refusals(books.actions))
    assert books.quota("a") < books.quota("b")


def test_a_job_that_always_reports_the_worst_gets_no_more_than_its_fair_part() -> None:
    books = estate("liar", "b", "c", ssd=0.3 * GB)
    liar = {"depth": 0.0, "wait_s": 9.0, "nbytes": 1e12}
    honest = {"depth": 0.5, "wait_s": 0.1, "nbytes": 150e6}
    run(books, range(20), liar=liar, b=honest, c=honest)
    pool = 0.15 * 0.3 * GB
    assert books.lent("liar") <= pool / 3 * 1.01
    assert books.quota("b") == pytest.approx(books.quota("c"), rel=0.05)
    assert books.quota("liar") <= 1.5 * books.quota("b")
    assert [x for x in books.actions if isinstance(x, Lend) and x.job == "liar"]


@pytest.mark.parametrize("order", [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")])
def test_whoever_reports_first_borrows_no_more_than_the_others(order: tuple[str, ...]) -> None:
    books = estate(*order, ssd=0.3 * GB)
    starved = {"depth": 0.0, "wait_s": 0.5, "nbytes": 300e6}
    borrowed = dict.fromkeys(order, 0.0)
    for iteration in range(60):
        for place, job in enumerate(order):
            books.tell(report(job, iteration, **starved), now=iteration + 0.1 * place)  # type: ignore[arg-type]
        for tenth in range(3, 10):
            books.tell(Tick(), now=iteration + 0.1 * tenth)
            borrowed = {job: total + books.lent(job) for job, total in borrowed.items()}
    assert max(borrowed.values()) <= 1.1 * min(borrowed.values())


def test_a_tier_that_holds_a_job_up_frees_what_it_cannot_use_elsewhere() -> None:
    books = estate("slow", "fast", ssd=0.3 * GB, hdd=0.05 * GB)
    half = {"split": {"ssd": 0.5, "hdd": 0.5}, "nbytes": 400e6, "depth": 0.5, "wait_s": 1.0}
    run(books, range(10), slow=half, fast={"nbytes": 250e6, "depth": 1.0})
    assert books.quota("slow", "hdd") >= 0.9 * 0.05 * GB
    assert books.quota("fast") > 0.2 * GB


def test_on_a_congested_link_jobs_that_are_well_leave_it_to_those_in_need() -> None:
    books = estate("well", "worse", "disk")
    books.tell(TierChanged(tier="wan", media="link", bytes_per_s=GB))
    far = {"split": {"ssd": 1.0, "wan": 1.0}}
    suffering = far | {"depth": 0.0, "wait_s": 2.0, "queue_share": 0.9, "io_latency_s": 0.1}
    run(books, range(30), well=far, worse=far, disk={})
    run(books, range(30, 50), well=far, worse=suffering, disk={"nbytes": 300e6})
    assert books.arbiter.snapshot().tiers["wan"].effective < GB
    assert books.quota("worse", "wan") > 5 * books.quota("well", "wan")
    assert books.quota("well", "wan") >= 50e6
    assert books.quota("worse") < 0.5 * GB, "disks cannot help where a link is slow"
    run(books, range(50, 80), well=far, worse=far, disk={})
    assert books.arbiter.snapshot().tiers["wan"].effective == GB


def test_a_link_that_a_job_crosses_no_more_is_not_blamed_for_what_disks_do() -> None:
    books = estate("a")
    books.tell(TierChanged(tier="wan", media="link", bytes_per_s=GB))
    run(books, range(1), a={"split": {"ssd": 1.0, "wan": 1.0}})
    run(books, range(1, 30), a={})
    run(books, range(30, 50), a={"depth": 0.0, "wait_s": 2.0, "queue_share": 0.9})
    assert books.arbiter.snapshot().tiers["wan"].effective == GB
    assert books.arbiter.snapshot().tiers["ssd"].effective < GB


def test_reordering_is_for_jobs_on_disks_that_stay_in_danger() -> None:
    books = estate("a", hdd=0.1 * GB)
    starved = {"split": {"hdd": 1.0}, "depth": 0.0, "wait_s": 3.0, "nbytes": 300e6}
    run(books, range(10), a=starved)
    assert SetReordering in {type(x) for x in books.actions}
    assert books.arbiter.snapshot().jobs["a"].reordering


def test_a_change_of_level_is_told_once() -> None:
    books = estate("a")
    run(books, range(3), a={})
    run(books, range(3, 9), a={"depth": 0.0, "wait_s": 1.0})
    told = [x for x in books.actions if isinstance(x, Diagnosed)]
    assert told[-1].level == "critical"
    assert len({(x.level, x.mode) for x in told}) == len(told)


def test_an_urgent_burst_is_served_before_the_reads_of_healthy_jobs() -> None:
    books = estate("a", "b")
    run(books, range(3), a={"nbytes": 500e6}, b={"nbytes": 500e6})
    books.tell(
        BurstAnnounced(
            job="a", burst="s1", tier="ssd", nbytes=60 * GB, deadline_s=60.0, urgent=True
        )
    )
    burst = books.bursts["a", "s1"]
    assert burst.bytes_per_s > 0.9 * GB
    assert "urgent" in burst.reason
    assert books.quota("b") > 0
    books.tell(BurstEnded(job="a", burst="s1"))
    assert books.quota("a") + books.quota("b") > 0.9 * GB


def test_an_ordinary_burst_leaves_jobs_in_need_their_part() -> None:
    books = estate("a", ssd=0.3 * GB)
    run(books, range(5), a={"nbytes": 250e6, "depth": 0.0, "wait_s": 0.3})
    books.tell(BurstAnnounced(job="a", burst="s", tier="ssd", nbytes=60 * GB, deadline_s=60.0))
    assert books.bursts["a", "s"].bytes_per_s <= 0.61 * 0.3 * GB
    assert "late" in books.bursts["a", "s"].reason
    assert books.quota("a") >= 0.39 * 0.3 * GB


def test_a_burst_that_nobody_ends_is_dropped_after_its_deadline() -> None:
    books = estate("a")
    books.tell(BurstAnnounced(job="a", burst="s", tier="ssd", nbytes=6 * GB, deadline_s=10.0))
    books.tell(Tick(), now=5.0)
    assert books.arbiter.snapshot().jobs["a"].bursts
    books.tell(Tick(), now=80.0)
    assert not books.arbiter.snapshot().jobs["a"].bursts


def test_a_job_that_leaves_frees_everything() -> None:
    books = estate("a", "b", ssd=0.25 * GB)
    run(books, range(2), a={"nbytes": 200e6, "depth": 0.0}, b={"nbytes": 200e6})
    books.tell(BurstAnnounced(job="a", burst="s", tier="ssd", nbytes=GB, deadline_s=60.0))
    books.tell(JobLeft(job="a"))
    assert {loan.job for loan, _ in books.loans.values()} <= {"b"}
    assert not books.bursts
    assert books.quota("b") > 0.9 * 0.25 * GB


def test_a_tier_that_shrinks_takes_from_all_at_once() -> None:
    books = estate("a", "b")
    books.tell(TierChanged(tier="ssd", media="ssd", bytes_per_s=0.1 * GB))
    assert books.given("ssd") <= 0.1 * GB


def test_a_tier_that_is_gone_is_forgotten() -> None:
    books = estate("a", hdd=GB)
    books.tell(TierChanged(tier="hdd", media="hdd", bytes_per_s=0.0))
    assert set(books.arbiter.snapshot().jobs["a"].tiers) == {"ssd"}


def test_loans_go_on_to_their_timer_where_a_tier_gets_another_medium() -> None:
    books = estate("a", "b", ssd=0.25 * GB)
    run(books, range(2), a={"nbytes": 200e6, "depth": 0.0}, b={"nbytes": 200e6})
    (before,) = books.arbiter.snapshot().jobs["a"].loans
    books.tell(TierChanged(tier="ssd", media="hdd", bytes_per_s=0.25 * GB))
    snapshot = books.arbiter.snapshot()
    assert snapshot.tiers["ssd"].media == "hdd"
    assert snapshot.jobs["a"].loans == (before,)
    told = books.tell(Tick(), now=before.expires_at)
    assert before.loan in [action.loan for action in told if isinstance(action, Reclaim)]


def test_after_a_restart_quotas_in_force_are_left_alone() -> None:
    books = Books()
    books.tell(TierChanged(tier="ssd", media="ssd", bytes_per_s=GB))
    books.arbiter.handle(JobJoined(job="a", quotas={"ssd": 0.6 * GB}), 0.0)
    told = books.tell(JobJoined(job="b", quotas={"ssd": 0.35 * GB}), 0.0)
    told += books.tell(Tick(), 2.0)
    assert [x for x in told if isinstance(x, SetQuota)] == []


def test_a_run_under_another_name_needs_what_the_one_before_showed() -> None:
    books = estate("b", ssd=400e6, hdd=400e6)
    books.tell(JobJoined(job="a-1", data_path="a"))
    run(books, range(8), **{"a-1": {"nbytes": 100e6}, "b": {"nbytes": 290e6}})
    books.tell(JobLeft(job="a-1"), now=8.9)
    books.tell(JobJoined(job="a-2", data_path="a", upcoming_bytes=(100e6,) * 4), now=9.0)
    books.tell(report("b", 9, nbytes=290e6), now=9.1)
    assert books.quota("a-2") >= 100e6
    assert books.quota("a-2", "hdd") < books.quota("a-2")


def test_a_job_that_died_leaves_its_part_to_others_until_it_is_heard_again() -> None:
    books = estate("a", "b", ssd=400e6)
    run(books, range(8), a={"nbytes": 300e6}, b={"nbytes": 300e6})
    for second in range(8, 60):
        books.tell(report("b", second, nbytes=300e6), now=second + 1.0)
        books.tell(Tick(), now=second + 1.5)
    assert books.quota("a") > 150e6
    for second in range(60, 72):
        books.tell(report("b", second, nbytes=300e6), now=second + 1.0)
        books.tell(Tick(), now=second + 1.5)
    assert books.quota("a") < 0.2 * books.quota("b")
    assert books.quota("b") >= 300e6
    books.tell(report("a", 8, nbytes=300e6), now=73.0)
    assert books.quota("a") > 150e6


def test_a_job_with_long_steps_is_not_taken_for_dead() -> None:
    books = estate("a", "b", ssd=400e6)
    run(books, range(4), a={"nbytes": 300e6, "step_s": 100.0}, b={"nbytes": 300e6})
    had = books.quota("a")
    for second in range(4, 90):
        books.tell(report("b", second, nbytes=300e6), now=second + 1.0)
        books.tell(Tick(), now=second + 1.5)
    assert books.quota("a") >= 0.9 * had


@pytest.mark.parametrize("leaves", [True, False])
def test_a_run_that_begins_again_needs_what_the_run_before_showed(*, leaves: bool) -> None:
    books = estate("a", "b", ssd=400e6, hdd=400e6)
    run(books, range(8), a={"nbytes": 100e6}, b={"nbytes": 290e6})
    if leaves:
        books.tell(JobLeft(job="a"), now=8.9)
    books.tell(JobJoined(job="a", upcoming_bytes=(100e6,) * 4), now=9.0)
    books.tell(report("b", 9, nbytes=290e6), now=9.1)
    assert books.quota("a") >= 100e6
    assert books.quota("a", "hdd") < books.quota("a")


def test_a_run_that_begins_again_is_given_for_at_once_whatever_agents_still_enforce() -> None:
    books = estate("a", "b", ssd=400e6)
    run(books, range(8), a={"nbytes": 100e6}, b={"nbytes": 200e6})
    books.tell(JobLeft(job="a"), now=8.9)
    begins = JobJoined(job="a", quotas={"ssd": 60e6}, upcoming_bytes=(100e6,) * 4)
    told = books.arbiter.handle(begins, 9.0)
    raised = [x.bytes_per_s for x in told if isinstance(x, SetQuota) and x.job == "a"]
    assert raised and raised[-1] >= 100e6


def test_a_run_that_has_not_measured_a_step_yet_is_given_for_by_those_of_the_run_before() -> None:
    books = estate("a", "b", ssd=400e6)
    run(books, range(8), a={"nbytes": 100e6}, b={"nbytes": 200e6})
    books.tell(JobLeft(job="a"), now=8.9)
    books.tell(JobJoined(job="a", upcoming_bytes=(100e6,) * 4), now=9.0)
    books.tell(report("b", 9, nbytes=350e6, depth=0.0), now=10.0)
    books.tell(report("a", 0, nbytes=100e6, depth=0.0, step_s=0.0, read=0.0), now=10.2)
    books.tell(Tick(), now=11.1)
    assert books.quota("a") >= 85e6
    assert books.arbiter.snapshot().jobs["a"].step_time_s == 1.0


def test_a_restored_loan_is_known_and_its_number_not_given_again() -> None:
    books = estate("a", "b", ssd=0.25 * GB)
    run(books, range(1), a={"nbytes": 200e6, "depth": 0.0}, b={})
    (loan,) = books.arbiter.snapshot().jobs["a"].loans
    again = Books()
    again.tell(TierChanged(tier="ssd", media="ssd", bytes_per_s=0.25 * GB))
    for job in "ab":
        again.tell(JobJoined(job=job, quotas={"ssd": books.quota(job)}))
    again.arbiter.restore([loan], next_loan=40)
    assert again.arbiter.snapshot().jobs["a"].loans == (loan,)
    again.now = 6.0
    (ended,) = again.arbiter.handle(Tick(), loan.expires_at)[:1]
    assert isinstance(ended, Reclaim) and ended.loan == loan.loan


def test_a_job_is_served_before_its_first_step() -> None:
    books = estate("a", ssd=0.2 * GB)
    run(books, range(4), a={"nbytes": 150e6})
    books.tell(
        JobJoined(
            job="new",
            step_time_s=1.0,
            begins_in_s=10.0,
            upcoming_bytes=(100e6,) * 8,
            split={"ssd": 1.0},
        )
    )
    assert books.quota("new") > 0.06 * GB


def test_a_dead_host_does_not_stop_decisions() -> None:
    books = Books()
    books.tell(TierChanged(tier="ssd", media="ssd", bytes_per_s=0.1 * GB))
    books.tell(JobJoined(job="a", hosts=2))
    for iteration in range(10):
        now = float(iteration)
        books.tell(report("a", iteration, host="h0", depth=0.0, wait_s=1.0), now=now)
        if iteration < 2:
            books.tell(report("a", iteration, host="h1"), now=now)
    state = books.arbiter.snapshot().jobs["a"]
    assert state.level == "critical"
    assert state.iteration >= 8


def test_a_report_that_cannot_be_true_changes_nothing() -> None:
    books = estate("a")
    run(books, range(3), a={})
    before = books.arbiter.snapshot()
    with pytest.raises(ReportError, match="next_bytes"):
        books.arbiter.handle(report("a", 3, nbytes=float("nan")), 4.0)
    assert books.arbiter.snapshot() == before


def test_a_report_of_an_unknown_job_is_nothing() -> None:
    assert estate("a").tell(report("b", 0)) == []


def test_reactive_quotas_follow_health_without_looking_ahead() -> None:
    books = estate("a", "b", ssd=0.4 * GB, predictive=False)
    run(books, range(30), a={"depth": 0.5, "wait_s": 0.3}, b={"depth": 8.0})
    assert books.quota("a") > 1.5 * books.quota("b")


def test_a_tier_that_joins_later_is_regulated_too() -> None:
    books = estate("a", ssd=0.2 * GB)
    starved = {"depth": 0.0, "wait_s": 1.0, "nbytes": 300e6}
    run(books, range(4), a=starved)
    books.tell(TierChanged(tier="hdd", media="hdd", bytes_per_s=GB))
    run(books, range(4, 8), a=starved | {"split": {"ssd": 0.5, "hdd": 0.5}})
    assert books.quota("a", "hdd") > 150e6
