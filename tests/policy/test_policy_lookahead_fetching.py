"""Samples whose bytes are being brought nearer are not read by themselves meanwhile."""

from __future__ import annotations

import math

from queue_for_tests import Bench, Steps

from headrace.policy.lookahead_events import (
    AskCancelled,
    FetchBegan,
    FetchEnded,
    GuardDecided,
    JobRemoved,
    PlanChanged,
    Serve,
    ServeRaw,
    Tick,
    Visit,
)


def foreseen(bench: Bench, *steps: int) -> list[Visit]:
    return [visit for visit in bench.queue.upcoming("job") if visit.step in steps]


def resting() -> Bench:
    """A queue whose guard lets nothing start yet."""
    bench = Bench()
    bench.tell(GuardDecided(workers=0, transform=True))
    bench.job()
    return bench


def test_what_is_foreseen_is_told_in_order_of_steps() -> None:
    visits = resting().queue.upcoming("job")
    assert [visit.step for visit in visits[:6]] == [0, 0, 1, 1, 2, 2]
    assert resting().queue.upcoming("nobody's") == []


def test_it_starts_nothing_that_is_being_fetched_and_all_of_it_afterwards() -> None:
    bench = resting()
    near = foreseen(bench, 0, 1)
    bench.tell(FetchBegan(job="job", visits=near))
    bench.tell(GuardDecided(workers=2, transform=True))
    assert bench.running_samples() == [4, 5]  # of step 2
    bench.finish_all(2)
    bench.tell(FetchEnded(job="job", visits=near))
    bench.finish_all(2)
    assert bench.running_samples() == [0, 1]


def test_a_request_waits_for_what_is_fetched_longer_than_its_patience() -> None:
    bench = resting()
    near = foreseen(bench, 0)
    bench.tell(FetchBegan(job="job", visits=near))
    assert bench.ask(0, 0, wait_s=0.1) == []
    assert bench.tell(Tick(), at=5.0) == []
    bench.tell(GuardDecided(workers=1, transform=True))
    bench.finish_all(1)
    bench.tell(FetchEnded(job="job", visits=near))
    bench.finish_all(1)
    assert bench.running_samples() == [0]
    (served,) = [a for a in bench.finish(bench.started[0]) if isinstance(a, Serve)]
    assert served.visit.sample == 0


def test_what_was_started_or_is_waited_for_is_not_fetched() -> None:
    bench = resting()
    near = foreseen(bench, 0)
    bench.ask(0, 0)
    bench.tell(FetchBegan(job="job", visits=near))
    bench.tell(GuardDecided(workers=1, transform=True))
    assert bench.running_samples() == [0]


def test_a_client_that_leaves_does_not_start_what_is_fetched() -> None:
    bench = resting()
    near = foreseen(bench, 0)
    bench.tell(FetchBegan(job="job", visits=near))
    bench.ask(0, 0)
    bench.tell(AskCancelled(request=1))
    bench.tell(GuardDecided(workers=1, transform=True))
    assert bench.running_samples() == [2]
    bench.tell(FetchEnded(job="job", visits=near))
    bench.finish_all(1)
    assert bench.running_samples() == [0]


def test_a_guard_that_stops_transforms_has_the_raw_bytes_sent() -> None:
    bench = resting()
    bench.tell(FetchBegan(job="job", visits=foreseen(bench, 0)))
    bench.ask(0, 0)
    actions = bench.tell(GuardDecided(workers=0, transform=False, reason="busy"))
    assert [action.code for action in actions if isinstance(action, ServeRaw)] == ["busy"]


def test_a_fetch_may_end_after_its_job_its_plan_or_its_visits_are_gone() -> None:
    bench = resting()
    near = foreseen(bench, 0, 1)
    bench.tell(FetchBegan(job="job", visits=near))
    bench.tell(PlanChanged(job="job", plan=Steps(first=100)))
    bench.ask(9, 118, consumed=8)
    bench.tell(FetchEnded(job="job", visits=near))
    bench.tell(JobRemoved(job="job"))
    assert bench.tell(FetchBegan(job="job", visits=near)) == []
    assert bench.tell(FetchEnded(job="job", visits=near)) == []


def test_fetching_again_and_again_leaves_the_queue_as_small_as_it_was() -> None:
    bench = resting()
    visits = bench.queue.upcoming("job")
    for _ in range(40):
        bench.tell(FetchBegan(job="job", visits=visits))
        bench.tell(FetchEnded(job="job", visits=visits))
    window = bench.queue._queue.jobs["job"]
    assert len(window._due) <= 2 * len(window.items) + 64 + 1
    bench.tell(GuardDecided(workers=2, transform=True))
    assert bench.running_samples() == [0, 1]


def test_progress_of_a_job_is_told_and_of_one_that_is_gone_never_comes() -> None:
    bench = resting()
    bench.ask(3, 6, consumed=2)
    assert bench.queue.over("job") == 2
    assert bench.queue.due_at("job", 5, 0.0) < bench.queue.due_at("job", 6, 0.0)
    assert (bench.queue.over("gone"), bench.queue.due_at("gone", 5, 0.0)) == (-1, math.inf)
