"""Many threads share a budget: every second holds, the urgent go first, nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from headrace.controller.replicating.sharing import GaveWayError, SharedBudget, StoppedError, Taker
from headrace.policy.budget import REQUEST_BYTES
from headrace.policy.replication.events import CopyKey
from waiting import eventually

A, B = CopyKey("r", "step-1"), CopyKey("r", "step-2")


@dataclass
class Moved:
    """A piece that crossed between two moments."""

    key: CopyKey
    nbytes: int
    began: float
    ended: float


def move(
    budget: SharedBudget,
    key: CopyKey,
    nbytes: int,
    goes_on: Callable[[], bool],
    log: list[Moved],
    took_s: float = 0.0,
) -> None:
    """Move pieces as long as it is to go on; each takes a while."""
    with budget.taker(key, deadline=1.0) as take:
        while goes_on():
            take(nbytes)
            began = time.monotonic()
            time.sleep(took_s)
            log.append(Moved(key, nbytes, began, time.monotonic()))


def count(log: list[Moved], key: CopyKey) -> int:
    return sum(one.key == key for one in list(log))


TRIES = 5
LEAST_USED = 0.5
"""Of a budget, in one of a few tries: the machine may be busy just when it is measured; alone it
is all."""


def started(*calls: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def most_of_any_second(log: list[Moved]) -> int:
    """Return the most bytes that may have crossed in one second, all pieces at their worst."""
    return max(
        sum(
            one.nbytes + REQUEST_BYTES
            for one in log
            if one.began < start + 1.0 and one.ended > start
        )
        for start in {one.began for one in log}
    )


@pytest.mark.parametrize("nbytes", [4 << 10, 120 << 10])
def test_every_second_holds_with_many_threads_and_the_budget_is_used(nbytes: int) -> None:
    rate, seconds = 4 << 20, 1.4
    used: list[float] = []
    while len(used) < TRIES and max(used, default=0.0) < LEAST_USED:
        log = moved_in(seconds, SharedBudget(rate), nbytes)
        assert most_of_any_second(log) <= rate
        used.append(sum(one.nbytes + REQUEST_BYTES for one in log) / (rate * seconds))
    assert max(used) >= LEAST_USED, used


def moved_in(seconds: float, budget: SharedBudget, nbytes: int) -> list[Moved]:
    """Let eight threads move pieces for so long [s]."""
    log: list[Moved] = []
    until = time.monotonic() + seconds
    for thread in started(
        *(lambda: move(budget, A, nbytes, lambda: time.monotonic() < until, log, 0.002),) * 8
    ):
        thread.join(10.0)
    return log


@contextmanager
def moving(*moves: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Move pieces in threads meanwhile; each is told whether it is to go on."""
    ending = threading.Event()
    threads = started(*(partial(one, lambda: not ending.is_set()) for one in moves))
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join(10.0)


def test_others_move_nothing_while_an_urgent_one_moves() -> None:
    budget: SharedBudget = SharedBudget(None)
    log: list[Moved] = []
    with moving(
        lambda goes_on: move(budget, A, 1000, goes_on, log, 0.001),
        lambda goes_on: move(budget, B, 1000, goes_on, log, 0.001),
    ):
        eventually(lambda: count(log, A) and count(log, B))
        budget.give_way(frozenset({B}))
        before = count(log, A), count(log, B)
        eventually(lambda: count(log, B) >= before[1] + 50)
        meanwhile = count(log, A)
        budget.give_way(None)
        assert meanwhile <= before[0] + 1, "more than what had leave already"
        eventually(lambda: count(log, A) >= meanwhile + 10)


def test_the_urgent_is_served_first_from_a_budget() -> None:
    budget = SharedBudget(1 << 20)
    log: list[Moved] = []
    with moving(*(lambda goes_on: move(budget, A, 20_000, goes_on, log),) * 6):
        eventually(lambda: count(log, A))
        budget.give_way(frozenset({B}))
        before = count(log, A)
        move(budget, B, 20_000, lambda: count(log, B) < 40, log)
        meanwhile = count(log, A)
        budget.give_way(None)
        assert meanwhile <= before + 6, "more than what had leave already"


def test_a_chunk_that_gave_way_for_long_is_put_back() -> None:
    budget = SharedBudget(None, give_way_s=0.05)
    budget.give_way(frozenset({B}))
    with budget.taker(A, deadline=1.0) as take, pytest.raises(GaveWayError):
        take(1)


@pytest.mark.parametrize("rate", [None, 1 << 20])
def test_a_chunk_that_is_stopped_ends_its_wait(rate: float | None) -> None:
    budget = SharedBudget(rate)
    found: list[type[BaseException]] = []
    taken: list[Taker] = []

    def wait() -> None:
        with budget.taker(A, deadline=1.0) as take:
            taken.append(take)
            try:
                while True:
                    take(20_000)
            except StoppedError as error:
                found.append(type(error))

    budget.give_way(frozenset({B}) if rate is None else None)
    (thread,) = started(wait)
    eventually(lambda: taken)
    taken[0].stop()
    thread.join(5.0)
    assert found == [StoppedError]


def test_what_an_ended_chunk_held_is_free_a_second_later() -> None:
    budget = SharedBudget(1 << 20)
    with budget.taker(A, deadline=1.0) as take:
        for thread in started(*(lambda: take(20_000) for _ in range(30))):
            thread.join(5.0)
    began = time.monotonic()
    with budget.taker(B, deadline=1.0) as take:
        for _ in range(30):
            take(20_000)
    assert time.monotonic() - began < 10.0


def test_shares_are_never_more_than_the_budget_and_change_hands_at_once() -> None:
    rate = 8 << 20
    budget = SharedBudget(rate)
    held: list[float] = []
    most: list[float] = []

    def send(count: int) -> None:
        with budget.taker(A, deadline=1.0) as taker:
            for _ in range(count):
                with budget.share(taker) as bytes_per_s:
                    assert bytes_per_s is not None
                    held.append(bytes_per_s)
                    most.append(sum(held))
                    time.sleep(0.02)
                    held.remove(bytes_per_s)

    began = time.monotonic()
    for thread in started(*(lambda: send(5) for _ in range(4))):
        thread.join(20.0)
    took_s = time.monotonic() - began
    assert max(most) <= rate
    assert took_s < 15.0  # 20 of them, each a second idle after another, would take longer


def test_a_share_that_lies_idle_is_given_to_pieces() -> None:
    budget = SharedBudget(2 << 20)
    with budget.taker(A, deadline=1.0) as taker:
        with budget.share(taker) as bytes_per_s:
            assert bytes_per_s == pytest.approx(0.9 * (2 << 20))
        began = time.monotonic()
        taker(20_000)
        assert 0.9 < time.monotonic() - began < 10.0  # a second after its end
