"""Steps come ahead, in order, within a budget; and priorities of decoding."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from headrace.client.batch import Batch
from headrace.client.counts import Counts
from headrace.client.crew import WHEN_IDLE, Crew
from headrace.client.held import Held
from headrace.client.pace import Pace, Patience, Reading
from headrace.client.prefetch import Prefetcher, PrefetchLimits
from headrace.client.work import Gathered
from headrace.core.errors import CallerError, DeadlineError
from waiting import eventually

NBYTES = 1000


class Scripted:
    """Makes steps of ``NBYTES``; counts how many bytes exist at once."""

    def __init__(self, fail_at: int = -1) -> None:
        self.made: list[int] = []
        self.fail_at = fail_at
        self.closed = False
        self.gate = threading.Event()
        self.gate.set()

    def gather(self, step: int) -> Gathered:
        self.gate.wait(10)
        self.made.append(step)
        if step == self.fail_at:
            raise OSError(f"step {step} is broken")
        columns = {"x": np.zeros(NBYTES, np.uint8)}
        batch = Batch(columns, {}, step=step, epoch=0, size=NBYTES)
        return Gathered(batch, Counts(), begin=0.0, seconds=0.0, peak_bytes=NBYTES)

    def close(self) -> None:
        self.closed = True


def prefetching(gatherers: list[Scripted], *, steps: int = 8, budget: int = 1 << 30) -> Prefetcher:
    prefetcher = Prefetcher(0, PrefetchLimits(steps=steps, budget_bytes=budget), Held())
    prefetcher.start(gatherers)
    return prefetcher


def ready_at_last(prefetcher: Prefetcher, ready: int) -> int:
    """Wait until so many steps are ready, and return how many are a moment later."""
    eventually(lambda: prefetcher.statistics().ready_steps >= ready)
    time.sleep(0.05)  # more would be made at once
    return prefetcher.statistics().ready_steps


def ended(prefetcher: Prefetcher) -> None:
    prefetcher.stop()
    prefetcher.join(5)


class LateAt(Scripted):
    """Makes one step only once its gate opens, the others at once."""

    def __init__(self, late: int, gate: threading.Event) -> None:
        super().__init__()
        self.late, self.opens = late, gate

    def gather(self, step: int) -> Gathered:
        if step == self.late:
            self.opens.wait(10)
        return super().gather(step)


def test_steps_behind_one_that_is_late_do_not_count_as_ready() -> None:
    gate = threading.Event()
    prefetcher = prefetching([LateAt(1, gate), LateAt(1, gate)], steps=4)
    prefetcher.take(0, 30)
    eventually(lambda: prefetcher.statistics().ready_steps >= 3)
    assert (prefetcher.ready_nowait(1), prefetcher.ready_nowait(2)) == (0, 3)
    gate.set()
    eventually(lambda: prefetcher.ready_nowait(1) == 4)
    ended(prefetcher)


def test_who_waits_while_it_is_stopped_is_told_so_at_once() -> None:
    prefetcher = prefetching([])
    threading.Timer(0.05, prefetcher.stop).start()
    with pytest.raises(CallerError, match="closed while step 0"):
        prefetcher.take(0, 60)


def test_steps_are_handed_over_in_order_whoever_made_them() -> None:
    prefetcher = prefetching([Scripted() for _ in range(4)])
    taken = [prefetcher.take(step, 30).batch.step for step in range(50)]
    assert taken == list(range(50))
    ended(prefetcher)


@pytest.mark.parametrize(("steps", "budget", "ready"), [(3, 1 << 30, 3), (8, 4 * NBYTES, 4)])
def test_no_more_is_made_ahead_than_the_limits_allow(steps: int, budget: int, ready: int) -> None:
    gatherers = [Scripted(), Scripted()]
    prefetcher = prefetching(gatherers, steps=steps, budget=budget)
    assert ready_at_last(prefetcher, ready) == ready
    assert prefetcher.statistics().ready_bytes == ready * NBYTES
    prefetcher.take(0, 30)
    assert ready_at_last(prefetcher, ready) == ready
    ended(prefetcher)


def test_what_is_reserved_for_other_things_is_left_to_them() -> None:
    reserved = [3 * NBYTES]
    limits = PrefetchLimits(steps=8, budget_bytes=5 * NBYTES)
    prefetcher = Prefetcher(0, limits, Held(), reserved=lambda: reserved[0])
    prefetcher.start([Scripted()])
    assert ready_at_last(prefetcher, 2) == 2
    assert (prefetcher.capacity(), prefetcher.statistics().budget_bytes) == (2, 2 * NBYTES)
    reserved[0] = 0
    assert ready_at_last(prefetcher, 5) == 5
    ended(prefetcher)


def test_a_batch_larger_than_the_budget_is_made_one_at_a_time() -> None:
    prefetcher = prefetching([Scripted(), Scripted()], budget=NBYTES // 2)
    for step in range(5):
        assert prefetcher.take(step, 30).batch.step == step
    assert ready_at_last(prefetcher, 1) == 1
    ended(prefetcher)


def test_an_error_comes_at_its_step_and_ends_the_making() -> None:
    gatherer = Scripted(fail_at=2)
    prefetcher = prefetching([gatherer])
    assert [prefetcher.take(step, 30).batch.step for step in range(2)] == [0, 1]
    with pytest.raises(OSError, match="step 2 is broken"):
        prefetcher.take(2, 30)
    ended(prefetcher)
    assert gatherer.made == [0, 1, 2]
    assert gatherer.closed


def test_a_step_that_does_not_come_ends_the_wait() -> None:
    gatherer = Scripted()
    gatherer.gate.clear()
    prefetcher = prefetching([gatherer])
    with pytest.raises(DeadlineError, match="step 0 did not come within"):
        prefetcher.take(0, 0.05)
    gatherer.gate.set()
    ended(prefetcher)


def test_a_crew_works_on_the_earliest_step_first() -> None:
    crew, order, gate = Crew(1), [], threading.Event()
    done = threading.Event()
    crew.submit(0, lambda: gate.wait(5) and None)
    for step in (WHEN_IDLE, 5, 3, 4):
        crew.submit(step, lambda step=step: order.append(step))  # type: ignore[misc]
    crew.submit(WHEN_IDLE, done.set)
    gate.set()
    assert done.wait(5)
    crew.close(5)
    assert order == [3, 4, 5, WHEN_IDLE]


def test_a_closed_crew_drops_what_was_waiting() -> None:
    crew, gate, ran = Crew(1), threading.Event(), []
    begun = threading.Event()
    crew.submit(0, lambda: begun.set() or (gate.wait(5) and None))  # type: ignore[func-returns-value]
    crew.submit(1, lambda: ran.append(1))
    assert begun.wait(5)
    crew.close(0.0)
    crew.submit(2, lambda: ran.append(2))
    gate.set()
    crew.close(5)
    assert ran == []


def test_the_pace_is_smoothed_and_says_when_a_step_is_due() -> None:
    pace = Pace(10)
    assert pace.read().due_in(15) == 0.0
    pace.took(10, None)
    pace.took(11, 1.0)
    pace.took(12, 2.0)
    reading = pace.read()
    assert reading.step_time_s == pytest.approx(1.2)
    assert reading.due_in(13) == 0.0
    assert reading.due_in(15) == pytest.approx(2.4)
    pace.restart(0)
    assert pace.read().due_in(2) == pytest.approx(2.4)


def test_agents_get_half_the_time_that_is_left_but_never_less_than_the_least() -> None:
    patience = Patience(least_s=0.5, grace_s=0.1)
    reading = Reading(consumed_step=4, step_time_s=2.0)
    assert patience.wait_s(reading, 5) == 0.5
    assert patience.wait_s(reading, 9) == 4.0


def test_before_the_pace_is_known_later_steps_get_more_time() -> None:
    patience = Patience(least_s=0.5, grace_s=0.1)
    unknown = Reading(consumed_step=-1, step_time_s=0.0)
    assert [patience.wait_s(unknown, step) for step in (0, 1, 7)] == [0.5, 1.0, 4.0]
