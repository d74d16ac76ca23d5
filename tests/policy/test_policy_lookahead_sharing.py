"""Jobs that need the same samples, prepared in the same way, have each of them made once."""

from __future__ import annotations

import pytest
from queue_for_tests import KB, MB, Bench, Steps, only

from headrace.policy.lookahead_events import (
    AskCancelled,
    Broken,
    Crashed,
    Drop,
    FetchBegan,
    FetchEnded,
    Grow,
    GrowAsked,
    JobRemoved,
    ModeChanged,
    PlanChanged,
    QuotasChanged,
    Refuse,
    Sent,
    Serve,
    ServeMissing,
    ServeRaw,
    Start,
    Tick,
)
from headrace.policy.window import WindowLimits


def alike(width: int = 1, **options: object) -> Steps:
    return Steps(width=width, content="alike", **options)  # type: ignore[arg-type]


def two_jobs(bench: Bench, **options: object) -> Start:
    """Two jobs of the same samples on a queue with one worker; returns what runs."""
    bench.job("one", alike(**options))
    bench.job("two", alike(**options))
    (start,) = bench.started
    return start


def used(bench: Bench) -> int:
    return bench.queue.statistics().memory_used_bytes


def shared(bench: Bench) -> int:
    return bench.queue.statistics().counts.get("shared", 0)


def test_a_sample_is_made_once_and_served_to_every_job_that_needs_it() -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.finish(start)
    (first,) = only(bench.ask(0, 0, job="one"), Serve)
    (second,) = only(bench.ask(0, 0, job="two"), Serve)
    assert first.ticket == second.ticket == start.ticket
    assert (first.shared, second.shared) == (False, True)
    assert 0 not in bench.running_samples()
    assert shared(bench) == 1


def test_jobs_whose_cuts_differ_share_nothing_until_they_agree() -> None:
    bench, elsewhere = Bench(workers=1), Steps(width=1, content="cut elsewhere")
    bench.job("one", alike())
    bench.job("two", elsewhere)

    def tickets(step: int) -> list[int]:
        for _ in range(20):
            if bench.running_samples():
                bench.finish(bench.started[-1])
        served = [only(bench.ask(step, step, job=job), Serve) for job in ("one", "two")]
        return [serve.ticket for found in served for serve in found]

    first, second = tickets(0)
    assert first != second
    bench.tell(PlanChanged(job="one", plan=elsewhere))
    first, second = tickets(15)
    assert first == second


def test_its_memory_counts_once_and_is_free_when_the_last_has_had_it() -> None:
    bench = Bench(workers=1, memory=100 * KB)
    start = two_jobs(bench)
    bench.finish(start)
    assert used(bench) == 100 * KB
    bench.ask(0, 0, job="one")
    assert not only(bench.tell(Sent(ticket=start.ticket)), Drop)
    bench.ask(0, 0, job="two")
    assert used(bench) == 100 * KB
    assert [drop.ticket for drop in only(bench.tell(Sent(ticket=start.ticket)), Drop)] == [
        start.ticket
    ]


def test_two_requests_at_once_are_both_sent_before_it_is_freed() -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.ask(0, 0, job="one")
    bench.ask(0, 0, job="two")
    assert len(only(bench.finish(start), Serve)) == 2
    assert not only(bench.tell(Sent(ticket=start.ticket)), Drop)
    assert only(bench.tell(Sent(ticket=start.ticket)), Drop)


@pytest.mark.parametrize("made", [False, True])
def test_a_job_that_comes_later_has_what_is_being_made_or_lies_ready(made: bool) -> None:
    bench = Bench(workers=1)
    bench.job("one", alike())
    (start,) = bench.started
    if made:
        bench.finish(start)
    bench.job("two", alike())
    if not made:
        bench.finish(start)
    (serve,) = only(bench.ask(0, 0, job="two"), Serve)
    assert (serve.ticket, serve.ready) == (start.ticket, True)


def test_what_is_on_its_way_to_one_job_is_served_to_another_that_asks_for_it_now() -> None:
    bench = Bench(workers=1)
    bench.job("one", alike())
    bench.job("two", alike(first=100))
    start = bench.started[0]
    bench.finish(start)
    bench.ask(0, 0, job="one")
    (serve,) = only(bench.ask(0, 0, job="two"), Serve)
    assert serve.ticket == start.ticket
    assert not only(bench.tell(Sent(ticket=start.ticket)), Drop)
    assert only(bench.tell(Sent(ticket=start.ticket)), Drop)


@pytest.mark.parametrize(("content", "made"), [("alike", 1), ("other", 2), ("", 2)])
def test_what_is_prepared_in_another_way_is_another_sample(content: str, made: int) -> None:
    bench = Bench(workers=300)
    bench.job("one", alike())
    bench.job("two", Steps(width=1, content=content))
    assert bench.running_samples().count(0) == made


def test_a_sample_of_another_epoch_is_another_sample() -> None:
    bench = Bench(workers=1)
    bench.job("one", alike())
    bench.job("two", alike(first=100))
    bench.finish_all(1)
    assert not only(bench.ask(0, 0, job="two", epoch=1), Serve)
    assert only(bench.ask(0, 0, job="two", epoch=0), Serve)


def test_a_job_that_sends_encoded_bytes_only_has_no_part_in_it() -> None:
    bench = Bench(workers=1)
    bench.job("one", alike())
    bench.job("two", alike(), raw_only="golden vectors differ")
    bench.finish(bench.started[0])
    assert only(bench.ask(0, 0, job="two"), ServeRaw)[0].code == "raw-only"
    assert only(bench.ask(0, 0, job="one"), Serve)


@pytest.mark.parametrize("event", ["removed", "raw-only", "replanned", "cancelled", "over"])
@pytest.mark.parametrize("made", [False, True])
def test_what_becomes_of_the_job_it_was_started_for_takes_it_from_no_other(
    event: str, made: bool
) -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.ask(1, 1, job="one", consumed=-1)
    if made:
        bench.finish(start)
    match event:
        case "removed":
            bench.tell(JobRemoved(job="one"))
        case "raw-only":
            bench.tell(ModeChanged(job="one", raw_only="golden vectors differ"))
        case "replanned":
            bench.tell(PlanChanged(job="one", plan=Steps(width=1, first=1000)))
        case "cancelled":
            bench.tell(AskCancelled(request=1))
        case "over":
            bench.ask(9, job="one", consumed=8)
    if not made:
        bench.finish(start)
    (serve,) = only(bench.ask(0, 0, job="two"), Serve)
    assert serve.ticket == start.ticket


def test_what_both_jobs_leave_is_dropped() -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.finish(start)
    assert not only(bench.tell(JobRemoved(job="one")), Drop)
    assert start.ticket in [drop.ticket for drop in only(bench.tell(JobRemoved(job="two")), Drop)]


def test_a_sample_that_takes_workers_down_takes_two_of_them_and_not_two_for_each_job() -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.ask(0, 0, job="one")
    bench.ask(0, 0, job="two")
    bench.started.clear()
    bench.tell(Crashed(ticket=start.ticket, reason="SIGSEGV"))
    (again,) = bench.started
    bench.started.clear()
    raws = only(bench.tell(Crashed(ticket=again.ticket, reason="SIGSEGV")), ServeRaw)
    assert [(raw.visit.job, raw.code) for raw in raws] == [("one", "crashed"), ("two", "crashed")]
    assert 0 not in bench.running_samples()


def test_a_broken_sample_is_told_to_every_job() -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.ask(0, 0, job="one")
    told = only(bench.tell(Broken(ticket=start.ticket, code="corrupt", reason="cut")), ServeMissing)
    told += only(bench.ask(0, 0, job="two"), ServeMissing)
    assert [(missing.visit.job, missing.code) for missing in told] == [
        ("one", "corrupt"), ("two", "corrupt"),
    ]  # fmt: skip


def test_a_result_that_is_too_large_grows_for_all_or_is_given_up_for_all() -> None:
    bench = Bench(workers=1, memory=1 * MB)
    start = two_jobs(bench)
    bench.ask(0, 0, job="one")
    assert only(bench.tell(GrowAsked(ticket=start.ticket, nbytes=500 * KB)), Grow)
    bench.finish(start, nbytes=500 * KB)
    assert only(bench.ask(0, 0, job="two"), Serve)
    (start,) = bench.started
    bench.ask(1, 1, job="one")
    bench.ask(1, 1, job="two")
    actions = bench.tell(GrowAsked(ticket=start.ticket, nbytes=2 * MB))
    assert only(actions, Refuse)
    assert [raw.visit.job for raw in only(actions, ServeRaw)] == ["one", "two"]


def test_it_may_grow_for_a_job_that_is_left_when_the_first_does_not_want_it_any_more() -> None:
    bench = Bench(workers=1, memory=1 * MB)
    start = two_jobs(bench)
    bench.ask(9, job="one", consumed=8)
    assert only(bench.tell(GrowAsked(ticket=start.ticket, nbytes=500 * KB)), Grow)
    bench.finish(start, nbytes=500 * KB)
    assert only(bench.ask(0, 0, job="two"), Serve)


def test_what_one_job_drops_to_make_room_is_made_again_for_the_other() -> None:
    bench = Bench(workers=1, memory=300 * KB)
    two_jobs(bench)
    bench.finish_all(3)
    assert (bench.queue.statistics().ready, bench.started) == (3, [])
    assert len(only(bench.ask(0, 77, job="one"), Drop)) == 1
    (asked,) = bench.started
    bench.finish(asked)
    bench.tell(Sent(ticket=asked.ticket))
    assert bench.running_samples() == [2]
    assert {start.visit.job for start in bench.started} == {"two"}


def test_jobs_of_the_same_samples_take_nothing_from_each_other_when_memory_is_full() -> None:
    bench = Bench(workers=1, memory=300 * KB)
    two_jobs(bench)
    bench.finish_all(3)
    assert not only(bench.tell(Tick(), at=0.1), Start)
    for sample in range(3):
        assert only(bench.ask(sample, sample, job="one", consumed=-1), Serve)
        assert only(bench.ask(sample, sample, job="two", consumed=-1), Serve)


def test_a_job_that_stands_still_keeps_no_more_than_its_share_of_what_another_makes() -> None:
    bench = Bench(workers=1, memory=400 * KB)
    bench.job("stands", alike())
    bench.job("goes", alike())
    served = 0
    for step in range(30):
        actions = bench.ask(step, step, job="goes")
        for start in list(bench.started):
            bench.now += 0.02
            actions += bench.finish(start)
        for serve in only(actions, Serve):
            served += 1
            bench.tell(Sent(ticket=serve.ticket))
    assert served == 30
    assert bench.queue.statistics().ready <= 4


def test_a_job_without_quota_left_has_what_another_job_pays_for() -> None:
    bench = Bench(workers=1)
    bench.tell(QuotasChanged(quotas={"held": {"hdd": 1.0}}))
    bench.job("held", alike(), step_time_s=0.1)
    bench.finish_all(len(bench.started))
    bench.job("free", alike())
    for _ in range(5):
        bench.finish_all(1)
    assert only(bench.ask(4, 4, job="held"), Serve)[0].shared


def test_what_is_brought_nearer_for_one_job_is_not_waited_for_if_another_makes_it() -> None:
    bench = Bench(workers=1)
    bench.job("two", alike())
    bench.finish_all(1)
    near = bench.queue.upcoming("two")[:3]
    bench.tell(FetchBegan(job="two", visits=near))
    bench.job("one", alike())
    while near[0].sample not in bench.running_samples():
        bench.finish_all(1)
    bench.finish_all(1)
    assert only(bench.ask(near[0].step, near[0].sample, job="two"), Serve)[0].shared
    bench.tell(FetchEnded(job="two", visits=near))
    assert near[0].sample not in bench.running_samples()


def test_a_job_shares_nothing_with_itself() -> None:
    bench = Bench(workers=1)
    bench.job(plan=alike())
    bench.finish_all(1)
    assert not only(bench.ask(3, 0, consumed=-1), Serve)
    assert only(bench.ask(0, 0, consumed=-1), Serve)


def test_what_is_being_sent_makes_no_room_and_is_kept_for_the_other() -> None:
    bench = Bench(workers=1, memory=200 * KB)
    two_jobs(bench)
    bench.finish_all(2)
    assert only(bench.ask(1, 1, job="one", consumed=-1), Serve)
    assert not only(bench.ask(0, 77, job="two", consumed=-1), Drop)
    assert bench.queue.statistics().ready == 2


def test_a_job_that_came_later_gives_up_what_it_shares_for_what_is_more_urgent() -> None:
    bench = Bench(workers=1, memory=300 * KB)
    bench.job("one", alike())
    bench.finish_all(3)
    bench.job("two", alike())
    (drop,) = only(bench.ask(0, 77, job="two", consumed=-1), Drop)
    assert drop.ticket == 3, "of step 2"


def test_what_jobs_share_counts_for_each_of_them_in_part() -> None:
    bench = Bench(workers=1, memory=400 * KB, window=WindowLimits(max_steps=2))
    two_jobs(bench)
    bench.finish_all(2)
    bench.job("alone", Steps(width=1, first=100))
    bench.finish_all(2)
    assert used(bench) == 400 * KB
    actions = bench.ask(9, 77, job="two", consumed=-1)
    assert not only(actions, Drop), "it has 100 of its 133 kB already"


def test_a_job_with_two_visits_of_what_another_made_may_go() -> None:
    bench = Bench(workers=1)
    start = two_jobs(bench)
    bench.ask(5, 0, job="two", consumed=-1)
    bench.tell(AskCancelled(request=1))
    bench.finish(start)
    assert not only(bench.tell(JobRemoved(job="two")), Drop)
    assert only(bench.ask(0, 0, job="one"), Serve)
