"""Jobs that need other results of the same bytes have them read once, where copies are kept."""

from __future__ import annotations

from typing import Any

import pytest
from queue_for_tests import Bench, Steps, only

from headrace.policy.lookahead_events import (
    Broken,
    Crashed,
    GuardDecided,
    JobRemoved,
    RawReadBegan,
    RawReadEnded,
    Serve,
    ServeRaw,
    Start,
    Tick,
)


def bench_of(*jobs: str, workers: int = 2, **plan: Any) -> Bench:
    """Jobs over the same samples in the same order, each with a pipeline of its own."""
    bench = Bench(workers=workers)
    bench.tell(GuardDecided(workers=0, transform=True))  # nothing starts before all are there
    for name in jobs:
        bench.job(name, Steps(**{"width": 4, "leaves_copies": True, **plan}))
    bench.tell(GuardDecided(workers=workers, transform=True))
    return bench


def running(bench: Bench) -> list[tuple[str, int]]:
    return [(start.visit.job, start.visit.sample) for start in bench.started]


def test_the_second_job_takes_other_samples_until_the_first_one_s_read_is_over() -> None:
    bench = bench_of("one", "two", workers=6)
    assert len({sample for _, sample in running(bench)}) == 6
    assert bench.queue.statistics().counts["behind"] >= 1
    first = bench.started[0].visit
    other = "two" if first.job == "one" else "one"
    assert (other, first.sample) not in running(bench)
    bench.finish(bench.started[0])
    assert running(bench)[-1] == (other, first.sample)


def test_every_sample_is_read_by_one_task_at_a_time_and_made_for_both() -> None:
    bench = bench_of("one", "two", workers=4)
    made: list[tuple[str, int]] = []
    for _ in range(60):
        samples = [sample for _, sample in running(bench)]
        assert len(set(samples)) == len(samples)
        made += running(bench)[:1]
        bench.finish(bench.started[0])
    assert {sample for job, sample in made if job == "one"} >= set(range(20))
    assert {sample for job, sample in made if job == "two"} >= set(range(20))


def test_where_no_copy_is_left_nobody_waits_for_another_s_read() -> None:
    bench = bench_of("one", "two", workers=8, leaves_copies=False)
    assert len({sample for _, sample in running(bench)}) < 8


@pytest.mark.parametrize("end", [Broken, Crashed])
def test_a_read_that_fails_lets_the_others_read_by_themselves(end: type) -> None:
    bench = bench_of("one", workers=1)
    first = bench.started.pop(0)
    bench.job("two", Steps(width=4, leaves_copies=True))
    assert bench.ask(0, first.visit.sample, job="two", wait_s=5.0) == []
    code = {"code": "unreadable"} if end is Broken else {}
    actions = bench.tell(end(ticket=first.ticket, reason="it is not there", **code))
    (start,) = only(actions, Start)
    assert (start.visit.job, start.visit.sample) == ("two", first.visit.sample)


def test_a_request_waits_for_the_copy_that_another_job_s_read_leaves() -> None:
    bench = bench_of("one", workers=2)
    first = bench.started[0]
    bench.job("two", Steps(width=4, leaves_copies=True))
    assert only(bench.ask(0, first.visit.sample, job="two", wait_s=0.1), ServeRaw) == []
    bench.finish(bench.started[1])
    assert bench.tell(Tick(), at=0.2) == [], "its raw bytes would be read from the same place"
    (start,) = [
        start
        for start in only(bench.finish(first), Start)
        if start.visit == first.visit or start.visit.job == "two"
    ]
    assert start.visit.sample == first.visit.sample
    assert only(bench.finish(start), Serve)


def test_a_job_that_leaves_takes_its_waiting_visits_with_it() -> None:
    bench = bench_of("one", "two", workers=2)
    bench.tell(JobRemoved(job="two"))
    bench.finish_all(8)
    assert {job for job, _ in running(bench)} == {"one"}


def test_the_same_sample_twice_in_a_batch_is_read_once_at_a_time() -> None:
    class Twice(Steps):
        def due(self, step: int) -> list[Any]:
            return [self.foresee(7, epoch) for epoch in range(2)] if step == 0 else []

    bench = Bench(workers=2)
    bench.job("job", Twice(leaves_copies=True))
    assert [(v.sample, v.epoch) for v in (s.visit for s in bench.started)] == [(7, 0)]
    bench.finish_all(1)
    assert [(v.sample, v.epoch) for v in (s.visit for s in bench.started)] == [(7, 1)]


def test_tasks_wait_for_the_copy_that_an_answer_of_raw_bytes_leaves() -> None:
    bench = Bench(workers=2)
    bench.tell(RawReadBegan(read=-7, encoded=("url", "digest", 0)))
    bench.job("job", Steps(leaves_copies=True))
    assert sorted(bench.running_samples()) == [1, 2], "it goes on with others"
    bench.finish_all(1)
    assert 0 not in bench.running_samples()
    bench.tell(RawReadEnded(read=-7))
    bench.finish_all(1)
    assert 0 in bench.running_samples()


def test_a_task_that_reads_already_is_waited_for_whatever_raw_answers_do() -> None:
    bench = bench_of("one", workers=1)
    first = bench.started[0]
    bench.tell(RawReadBegan(read=-7, encoded=("url", "digest", first.visit.sample)))
    bench.job("two", Steps(width=4, leaves_copies=True))
    bench.tell(GuardDecided(workers=2, transform=True))
    bench.tell(RawReadEnded(read=-7))
    assert ("two", first.visit.sample) not in running(bench)
    bench.finish(first)
    made = running(bench)
    for _ in range(4):
        bench.finish(bench.started[0])
        made += running(bench)
    assert ("two", first.visit.sample) in made
