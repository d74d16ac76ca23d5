"""The decoding threads work on nothing that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.client.crew import WHEN_IDLE, Crew


class Busy:
    """A crew of one thread, held up by a first task until ``release``."""

    def __init__(self) -> None:
        self.crew = Crew(1)
        self.done: list[float] = []
        self._begun, self._gate = threading.Event(), threading.Event()
        self.crew.submit(0, self._hold)
        assert self._begun.wait(5)

    def submit(self, *steps: float) -> None:
        for step in steps:
            self.crew.submit(step, lambda step=step: self.done.append(step))  # type: ignore[misc]

    def finish(self) -> list[float]:
        ended = threading.Event()
        self.crew.submit(WHEN_IDLE, ended.set)
        self._gate.set()
        assert ended.wait(5)
        return self.done

    def _hold(self) -> None:
        self._begun.set()
        self._gate.wait(5)


@pytest.fixture
def busy() -> Iterator[Busy]:
    busy = Busy()
    yield busy
    busy.finish()
    busy.crew.close(5)


def test_steps_that_nobody_waits_for_any_more_are_not_made(busy: Busy) -> None:
    busy.submit(2, WHEN_IDLE, 3)
    busy.crew.drop_steps()
    busy.submit(9)
    assert busy.finish() == [9, WHEN_IDLE]


def test_a_crew_can_be_closed_by_one_of_its_own_threads() -> None:
    """As the garbage collector does that happens to run there."""
    crew, outcome, ended = Crew(2), [], threading.Event()

    def close() -> None:
        try:
            crew.close(1)
        except RuntimeError as error:
            outcome.append(error)
        ended.set()

    crew.submit(0, close)
    assert ended.wait(5)
    assert not outcome
