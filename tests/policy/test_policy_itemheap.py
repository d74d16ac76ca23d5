"""Items in order of a key: which is the least, and that those which are over do not stay."""

from __future__ import annotations

import gc

from queue_for_tests import Bench, Steps, only

from headrace.policy.item import Item
from headrace.policy.itemheap import ItemHeap
from headrace.policy.lookahead_events import Planned, Sent, Serve, Visit
from headrace.policy.window import WindowLimits


def item(number: int) -> Item:
    return Item(
        visit=Visit(job="job", step=number, sample=number, epoch=0),
        planned=Planned(sample=number, epoch=0, kind="image", cost_s=0.0, nbytes=1, prepare=True),
        cost_s=0.0,
    )


def planned_items() -> ItemHeap:
    return ItemHeap(lambda one: one.state == "planned")


def test_the_least_key_comes_first_and_what_was_put_in_first_among_equals() -> None:
    heap, items = planned_items(), [item(number) for number in range(200)]
    for one in items:
        heap.push(one.visit.step % 3, one)
    found = []
    while (first := heap.top()) is not None:
        found.append((first[0], first[1].visit.step))
        heap.pop()
    assert found == sorted(found)
    assert len(found) == 200


def test_what_does_not_belong_is_skipped_and_comes_again_when_it_is_pushed_again() -> None:
    heap, first, second = planned_items(), item(1), item(2)
    heap.push(1.0, first)
    heap.push(2.0, second)
    first.state = "running"
    assert list(heap) == [second]
    assert heap.top() == (2.0, second)
    first.state = "planned"
    heap.push(1.0, first)
    assert heap.top() == (1.0, first)


def test_behind_one_that_stays_no_more_lie_than_belong() -> None:
    heap, stays = planned_items(), item(0)
    heap.push(0.0, stays)
    for number in range(1, 1000):
        passing = item(number)
        heap.push(float(number), passing)
        passing.state = "ready"
    assert len(heap) <= 2 + 64
    assert list(heap) == [stays]


def test_an_item_may_lie_there_at_several_keys_but_not_twice_at_one() -> None:
    heap, one = planned_items(), item(0)
    for _ in range(500):
        heap.push(1.0, one)
        heap.push(2.0, one)
    assert len(heap) <= 4 + 64
    heap.pop()
    while (first := heap.top()) is not None and first[0] == 1.0:
        heap.pop()
    assert first == (2.0, one)


def held_items() -> int:
    gc.collect()
    return sum(type(one) is Item for one in gc.get_objects())


def test_a_queue_holds_only_samples_that_somebody_still_wants() -> None:
    """Requests that are served long before their patience ends, from a window much larger."""
    before, width = held_items(), 32
    bench = Bench(workers=64, window=WindowLimits(max_steps=64))
    bench.job(plan=Steps(width=width, nbytes=4096))
    for step in range(60):
        samples = range(step * width, (step + 1) * width)
        served = only(bench.ask(step, *samples, wait_s=600.0), Serve)
        while len(served) < width:
            served += only(bench.finish(bench.started[0]), Serve)
        for action in served:
            bench.tell(Sent(ticket=action.ticket))
    window = bench.queue._queue.jobs["job"]
    assert held_items() - before - len(window.items) < 500
