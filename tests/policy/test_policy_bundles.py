"""Short tasks that a worker is given together."""

from __future__ import annotations

from queue_for_tests import Bench, Steps, only

from headrace.policy.bundles import BUNDLE_S, BUNDLE_TASKS
from headrace.policy.lookahead_events import GuardDecided, ServeRaw
from headrace.policy.window import WindowLimits

SHORT_S = BUNDLE_S / 2
TINY_S = BUNDLE_S / 100


def test_a_worker_is_given_short_tasks_for_as_long_as_a_bundle_may_take_and_then_the_next() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(cost_s=SHORT_S))
    assert bench.running_samples() == [0, 1]
    first, second = bench.started
    assert first.bundle == second.bundle == first.ticket
    bench.finish(first, seconds=SHORT_S)
    assert bench.running_samples() == [1], "it makes the other one now"
    bench.finish(second, seconds=SHORT_S)
    assert bench.running_samples() == [2, 3]


def test_however_short_they_are_a_worker_is_given_only_so_many() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(cost_s=TINY_S, width=32))
    assert len(bench.started) == BUNDLE_TASKS


def test_few_short_tasks_are_dealt_out_among_the_free_workers() -> None:
    bench = Bench(workers=2, window=WindowLimits(max_steps=2))
    bench.job(plan=Steps(cost_s=TINY_S, width=2))
    assert bench.running_samples() == [0, 1, 2, 3]
    assert [start.bundle for start in bench.started] == [1, 2, 1, 2]


def test_long_tasks_are_made_alone() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(cost_s=TINY_S, width=1, heavy={6: 0.55}))
    assert bench.running_samples() == [0], "6 comes next and is not kept waiting by 1"
    bench.finish(bench.started[0], seconds=TINY_S)
    assert bench.running_samples() == [6]
    bench.finish(bench.started[0], seconds=0.55)
    assert bench.running_samples() == [1, 2, 3, 4]


def test_only_as_many_workers_as_the_guard_allows_are_given_bundles() -> None:
    bench = Bench(workers=2)
    bench.tell(GuardDecided(workers=1, transform=True, reason=""))
    bench.job(plan=Steps(cost_s=SHORT_S))
    assert len({start.bundle for start in bench.started}) == 1


def test_what_a_busy_worker_has_left_of_its_bundle_counts_for_who_asks() -> None:
    bench = Bench(workers=1)
    bench.job(plan=Steps(cost_s=SHORT_S))
    first, second = bench.running_samples()
    assert only(bench.ask(0, second, wait_s=1.5 * SHORT_S), ServeRaw), "it is made second"
    assert not only(bench.ask(0, first, wait_s=1.5 * SHORT_S), ServeRaw)
    assert only(bench.ask(1, 2, wait_s=2.5 * SHORT_S), ServeRaw), "two are made before"
