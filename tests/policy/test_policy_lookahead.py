"""The consumer queue, fed with events and a time that the tests make up."""

from __future__ import annotations

import math

from queue_for_tests import KB, MB, Bench, Steps, only

from headrace.policy.lookahead_events import (
    AskCancelled,
    Broken,
    Crashed,
    Drop,
    Grow,
    GrowAsked,
    GuardDecided,
    JobRemoved,
    ModeChanged,
    PlanChanged,
    Refuse,
    Sent,
    Serve,
    ServeMissing,
    ServeRaw,
    Start,
    Tick,
)
from headrace.policy.window import WindowLimits


def test_preparation_starts_at_the_start_step_before_anything_is_asked() -> None:
    bench = Bench()
    bench.job(start_step=7)
    assert bench.running_samples() == [14, 15]


def test_never_more_tasks_run_than_the_guard_allows() -> None:
    bench = Bench(workers=4)
    bench.job()
    assert len(bench.started) == 4
    bench.tell(GuardDecided(workers=1, transform=True))
    for _ in range(3):
        assert not only(bench.finish(bench.started[0]), Start)
    assert len(only(bench.finish(bench.started[0]), Start)) == 1


def test_a_sample_that_lies_ready_is_served_at_once_and_freed_when_sent() -> None:
    bench = Bench()
    bench.job()
    first = bench.started[0]
    bench.finish(first)
    held = bench.queue.statistics().memory_used_bytes
    (serve,) = only(bench.ask(0, first.visit.sample), Serve)
    assert serve.ready
    assert serve.ticket == first.ticket
    bench.tell(Sent(ticket=first.ticket))
    assert bench.queue.statistics().memory_used_bytes < held


def test_a_running_sample_that_is_asked_for_is_served_when_it_finishes() -> None:
    bench = Bench()
    bench.job()
    first = bench.started[0]
    assert not only(bench.ask(0, first.visit.sample), Serve)
    (serve,) = only(bench.finish(first), Serve)
    assert not serve.ready


def test_what_cannot_be_made_in_time_is_sent_raw_at_once() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(heavy={5: 3.0}))
    (raw,) = only(bench.ask(2, 5, wait_s=1.0), ServeRaw)
    assert raw.code == "late"


def test_what_is_asked_for_goes_before_what_is_only_foreseen() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=4))
    bench.ask(3, 14, 15, consumed=0)
    bench.finish_all(1)
    assert bench.running_samples() == [14]


def test_a_sample_that_did_not_get_ready_in_time_is_sent_raw_when_patience_ends() -> None:
    bench = Bench(workers=1)
    bench.job()
    (running,) = bench.started
    bench.ask(0, running.visit.sample, wait_s=0.5)
    wake = bench.queue.wake_at()
    assert wake == 0.5
    (raw,) = only(bench.tell(Tick(), at=wake), ServeRaw)
    assert (raw.visit.sample, raw.code) == (running.visit.sample, "late")
    assert only(bench.finish(running), Drop), "nobody wants it any more"


def test_an_unstarted_sample_is_given_up_as_soon_as_it_can_no_longer_be_made() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(cost_s=0.2))
    bench.ask(1, 2, wait_s=0.5)
    assert not only(bench.tell(Tick(), at=0.25), ServeRaw)
    assert only(bench.tell(Tick(), at=0.31), ServeRaw)


def test_heavy_samples_of_later_steps_start_before_light_ones_of_nearer_steps() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1, heavy={6: 0.55}))
    order = []
    for _ in range(4):
        order.append(bench.running_samples()[0])
        bench.finish_all(1)
    assert order == [0, 6, 1, 2], "6 is due in 0.7 s and takes 0.55 s"


def test_samples_that_would_be_late_anyway_yield_to_those_that_can_be_in_time() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=2, cost_s=0.01, heavy={2: 5.0}))
    bench.ask(0, consumed=-1)
    bench.ask(0, consumed=0)
    bench.finish_all(1)
    assert 2 not in bench.running_samples()


def test_leftovers_of_steps_that_are_over_are_dropped() -> None:
    bench = Bench()
    bench.job()
    bench.finish_all(6)
    dropped = only(bench.ask(40, 80, consumed=39), Drop)
    assert len(dropped) == 6
    assert bench.queue.statistics().ready == 0


def test_a_slow_rank_holds_its_samples_until_it_has_passed_them() -> None:
    bench = Bench()
    bench.job()
    bench.finish_all(2)
    bench.ask(1, consumed=-1, rank=1, world=2)
    assert not only(bench.ask(1, consumed=0, rank=0, world=2), Drop)
    assert len(only(bench.ask(1, consumed=0, rank=1, world=2), Drop)) == 2


def test_a_job_that_went_back_is_prepared_again_from_there() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1))
    bench.ask(30, 30, consumed=29)
    bench.finish_all(2)
    bench.ask(5, 5, consumed=4)
    for _ in range(4):
        bench.finish_all(1)
    assert min(bench.running_samples()) < 30


def test_another_plan_goes_on_where_the_job_is_and_keeps_what_lies_ready() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1))
    bench.ask(20, 20, consumed=19)
    bench.finish_all(3)
    ready = bench.queue.statistics().ready
    (running,) = bench.started
    assert not only(bench.tell(PlanChanged(job="job", plan=Steps(width=1, first=1000))), Drop)
    assert bench.queue.statistics().ready == ready > 0
    bench.finish(running)
    for _ in range(3):
        assert 1020 <= bench.running_samples()[0] < 1040
        bench.finish_all(1)
    assert only(bench.ask(21, 21, consumed=20), Serve)


def test_memory_is_reserved_before_a_task_starts_and_never_exceeded() -> None:
    bench = Bench(memory=1 * MB, workers=8)
    bench.job(plan=Steps(nbytes=300 * KB))
    assert len(bench.started) == 3
    bench.finish_all(3)
    assert not bench.started, "three ready samples fill the budget"
    assert bench.queue.statistics().memory_used_bytes <= 1 * MB


def test_a_nearer_sample_takes_the_memory_of_the_one_that_is_due_last() -> None:
    bench = Bench(memory=1 * MB, workers=3)
    bench.job(plan=Steps(width=1, nbytes=300 * KB))
    bench.finish_all(3)
    actions = bench.ask(1, 900, consumed=0)
    (drop,) = only(actions, Drop)[-1:]
    assert only(actions, Start)[0].visit.sample == 900
    assert drop.ticket


def test_a_result_that_is_too_large_gets_more_memory_or_is_given_up() -> None:
    bench = Bench(memory=1 * MB, workers=1)
    bench.job(plan=Steps(nbytes=100 * KB))
    (start,) = bench.started
    (grown,) = only(bench.tell(GrowAsked(ticket=start.ticket, nbytes=500 * KB)), Grow)
    assert grown.nbytes == 500 * KB
    bench.finish(start, nbytes=500 * KB)
    (second,) = bench.started
    bench.ask(0, second.visit.sample)
    actions = bench.tell(GrowAsked(ticket=second.ticket, nbytes=2 * MB))
    assert only(actions, Refuse)
    assert only(actions, ServeRaw)[0].code == "busy"


def test_a_sample_larger_than_the_whole_budget_is_sent_raw() -> None:
    bench = Bench(memory=1 * MB)
    bench.job(plan=Steps(nbytes=2 * MB))
    assert not bench.started
    assert only(bench.ask(0, 0), ServeRaw)[0].code == "busy"


def test_a_job_without_need_lends_its_memory_and_gets_it_back() -> None:
    bench = Bench(memory=1 * MB, workers=8)
    bench.job("greedy", Steps(width=1, nbytes=200 * KB))
    bench.finish_all(5)
    actions = bench.job("second", Steps(width=1, nbytes=200 * KB, first=1000))
    assert len(only(actions, Drop)) >= 2
    assert {start.visit.job for start in bench.started} == {"second"}
    held = bench.queue.statistics().memory_used_bytes
    assert held <= 1 * MB


def test_no_job_keeps_the_workers_from_another() -> None:
    bench = Bench(workers=1)
    bench.job("late", Steps(width=8, cost_s=0.5), step_time_s=0.01)
    bench.job("fine", Steps(width=1, cost_s=0.05, first=5000), step_time_s=1.0)
    served = {"late": 0.0, "fine": 0.0}
    for _ in range(60):
        start = bench.started[0]
        seconds = 0.5 if start.visit.job == "late" else 0.05
        bench.now += seconds
        served[start.visit.job] += seconds
        bench.finish(start, seconds=seconds)
    assert served["fine"] >= 0.49, "all it needed: ten steps ahead"


def test_above_the_cpu_threshold_nothing_starts_and_what_is_asked_for_goes_raw() -> None:
    bench = Bench()
    bench.job()
    first, second = bench.started
    bench.ask(1, 2, 3, consumed=-1)
    raws = only(bench.tell(GuardDecided(workers=1, transform=False, reason="burner")), ServeRaw)
    assert [(raw.visit.sample, raw.code, raw.reason) for raw in raws] == [
        (2, "busy", "burner"), (3, "busy", "burner"),
    ]  # fmt: skip
    assert not only(bench.finish(first), Start)
    assert only(bench.ask(0, first.visit.sample, consumed=-1), Serve), "what lies ready is served"
    assert only(bench.ask(5, 11, consumed=-1), ServeRaw)[0].code == "busy"
    bench.ask(0, second.visit.sample)
    assert only(bench.finish(second), Serve), "running tasks may finish"
    assert only(bench.tell(GuardDecided(workers=2, transform=True)), Start)


def test_a_sample_that_takes_workers_down_twice_is_sent_raw_from_then_on() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1))
    bench.ask(0, 0)
    (start,) = bench.started
    bench.started.clear()
    assert not only(bench.tell(Crashed(ticket=start.ticket, reason="SIGSEGV")), ServeRaw)
    (again,) = bench.started
    assert again.visit.sample == 0
    bench.started.clear()
    (raw,) = only(bench.tell(Crashed(ticket=again.ticket, reason="SIGSEGV")), ServeRaw)
    assert (raw.code, raw.reason) == ("crashed", "SIGSEGV")
    assert only(bench.ask(1, 0), ServeRaw)[0].code == "crashed"
    assert 0 not in bench.running_samples()


def test_a_corrupt_sample_is_reported_missing_when_it_is_asked_for() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1))
    (start,) = bench.started
    bench.tell(Broken(ticket=start.ticket, code="corrupt", reason="truncated"))
    (missing,) = only(bench.ask(0, 0), ServeMissing)
    assert (missing.code, missing.reason) == ("corrupt", "truncated")


def test_a_job_that_may_not_be_transformed_is_served_raw_only() -> None:
    bench = Bench()
    bench.job(raw_only="golden vectors differ")
    assert not bench.started
    (raw,) = only(bench.ask(0, 0), ServeRaw)
    assert (raw.code, raw.reason) == ("raw-only", "golden vectors differ")


def test_kinds_that_the_cut_ships_raw_are_not_prepared() -> None:
    bench = Bench()
    bench.job(plan=Steps(unprepared=frozenset({0, 1})))
    assert bench.running_samples() == [2, 3]
    assert only(bench.ask(0, 0), ServeRaw)[0].code == "asked"


def test_a_client_that_asks_for_raw_frees_what_lay_ready() -> None:
    bench = Bench(workers=1)
    bench.job()
    bench.finish_all(1)
    actions = bench.ask(0, 0, raw=True)
    assert only(actions, Drop)
    assert only(actions, ServeRaw)[0].code == "asked"


def test_a_client_that_leaves_is_not_answered_and_its_samples_are_kept_for_a_retry() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1))
    (running,) = bench.started
    bench.ask(0, 0)
    bench.tell(AskCancelled(request=1))
    assert not only(bench.finish(running), Serve)
    assert only(bench.ask(0, 0), Serve)[0].ready


def test_removing_a_job_frees_its_memory_and_answers_who_waits() -> None:
    bench = Bench(workers=2)
    bench.job()
    running = bench.started[0]
    bench.finish(bench.started[1])
    bench.ask(0, running.visit.sample)
    actions = bench.tell(JobRemoved(job="job"))
    assert only(actions, Drop)
    assert only(actions, ServeRaw)
    for start in list(bench.started):
        assert only(bench.finish(start), Drop)
    assert bench.queue.statistics().memory_used_bytes == 0


def test_a_standing_loop_makes_nothing_late() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(width=1, cost_s=0.05))
    bench.ask(0, consumed=0)
    bench.tell(Tick(), at=50.0)
    bench.finish_all(3)
    assert len(bench.started) == 1
    assert bench.queue.statistics().ready == 2, "one was of the step that is being trained"


def test_an_overloaded_queue_still_makes_most_of_its_capacity_useful() -> None:
    """Two workers could make 20 of 32 samples a step; the rest must go raw early."""
    bench = Bench(workers=2)
    bench.job(plan=Steps(width=32, cost_s=0.01), step_time_s=0.1)
    served = raw = 0
    for step in range(60):
        actions = bench.ask(step, *range(step * 32, step * 32 + 32), wait_s=0.1)
        for _ in range(10):
            raw += len(only(actions, ServeRaw))
            for serve in only(actions, Serve):
                served += 1
                actions += bench.tell(Sent(ticket=serve.ticket))
            bench.now += 0.01
            actions = [a for start in list(bench.started) for a in bench.finish(start)]
            actions += bench.tell(Tick())
        served += len(only(actions, Serve))
        for serve in only(actions, Serve):
            bench.tell(Sent(ticket=serve.ticket))
    assert served >= 0.85 * 60 * 20
    assert served + raw <= 60 * 32


def test_a_job_that_may_no_longer_be_transformed_sends_nothing_that_was_prepared() -> None:
    bench = Bench(workers=2)
    bench.job(plan=Steps(width=4))
    bench.finish(bench.started[0])
    running = bench.started[0]
    bench.ask(0, running.visit.sample)
    actions = bench.tell(ModeChanged(job="job", raw_only="golden vectors differ"))
    assert len(only(actions, Drop)) == 1
    assert [raw.code for raw in only(actions, ServeRaw)] == ["raw-only"]
    for start in list(bench.started):
        assert not only(bench.finish(start), Serve | Start)
    assert {raw.code for raw in only(bench.ask(0, 0, 1), ServeRaw)} == {"raw-only"}
    assert bench.queue.statistics().memory_used_bytes == 0


def test_a_sample_that_can_never_fit_does_not_hold_up_the_others() -> None:
    bench = Bench(memory=1 * MB, workers=1)
    bench.job(plan=Steps(width=1, large={0: 2 * MB}))
    assert bench.running_samples() == [1]
    assert only(bench.ask(0, 0), ServeRaw)[0].code == "busy"


def test_one_result_that_does_not_fit_takes_no_other_sample_with_it() -> None:
    bench = Bench(memory=1 * MB, workers=1)
    bench.job(plan=Steps(width=4))
    assert not only(bench.ask(0, 0, 1), ServeRaw)
    actions = bench.tell(GrowAsked(ticket=bench.started.pop().ticket, nbytes=2 * MB))
    assert [raw.visit.sample for raw in only(actions, ServeRaw)] == [0]
    assert bench.running_samples() == [1]
    assert not only(bench.ask(0, 2), ServeRaw)


def test_a_job_that_fell_silent_gives_up_all_its_memory_to_one_that_asks() -> None:
    bench = Bench(memory=1 * MB, workers=8)
    bench.job("ended", Steps(width=1, nbytes=200 * KB))
    bench.finish_all(5)
    bench.tell(Tick(), at=600.0)
    bench.job("next", Steps(width=1, nbytes=200 * KB, first=1000))
    assert [start.visit.job for start in bench.started] == ["next"] * 5


def test_nothing_is_foreseen_for_a_job_that_fell_silent_until_it_asks_again() -> None:
    bench = Bench(workers=1, window=WindowLimits(max_steps=16))
    bench.job(plan=Steps(width=4))
    bench.finish_all(4)
    bench.tell(Tick(), at=30.0)
    assert bench.queue.statistics().planned == 16 * 4 - 5
    bench.finish_all(1)
    bench.tell(Tick(), at=600.0)
    held = bench.queue.statistics()
    assert (held.planned, held.running, held.ready) == (0, 1, 5)
    assert bench.queue.due_at("job", 1, 600.0) == math.inf
    assert len(only(bench.ask(0, 0, 1, 2, 3), Serve)) == 4
    assert bench.queue.statistics().planned >= 15 * 4
    assert bench.queue.due_at("job", 1, 600.0) < math.inf


def test_a_job_of_long_steps_is_not_silent_during_one() -> None:
    bench = Bench(workers=1)
    bench.job(step_time_s=100.0)
    before = bench.queue.statistics().planned
    bench.tell(Tick(), at=150.0)
    assert bench.queue.statistics().planned == before > 0


def test_what_a_rank_that_starts_late_needs_is_kept_for_it() -> None:
    bench = Bench()
    bench.job()
    bench.finish_all(2)
    assert not only(bench.ask(1, consumed=0, rank=0, world=2), Drop)
    assert only(bench.ask(0, 1, consumed=-1, rank=1, world=2), Serve)[0].ready


def test_results_without_a_byte_hold_no_memory() -> None:
    bench = Bench(workers=2)
    bench.job()
    bench.tell(GuardDecided(workers=2, transform=False))
    for start in list(bench.started):
        bench.finish(start, nbytes=0)
    assert len(only(bench.tell(JobRemoved(job="job")), Drop)) == 2


def test_what_made_room_in_vain_for_a_result_that_is_too_large_is_freed() -> None:
    bench = Bench(memory=1 * MB, workers=2)
    bench.job(plan=Steps(width=1, nbytes=300 * KB))
    first, second = bench.started
    bench.finish(second)
    third = bench.started[-1]
    assert third is not first
    actions = bench.tell(GrowAsked(ticket=first.ticket, nbytes=900 * KB))
    assert [drop.ticket for drop in only(actions, Drop)] == [second.ticket]
    assert only(actions, Refuse)
