"""The steps in the hands of one worker, and the threads that wait for them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable

from headrace.client.torch.mapstyle.errors import DatasetError
from headrace.client.torch.mapstyle.process import Death, Unreadable, WorkerProcess
from headrace.client.torch.mapstyle.recipe import Failed, Made, Plan, listed
from headrace.client.torch.mapstyle.worker import Answered, Asked
from headrace.core.errors import CallerError

AT_ONCE = 2
"""Steps in the hands of a worker: one that it makes, and one so that it need not wait for a thread
of this process, which may wait for the training loop to release the interpreter."""

MOST_DEATHS = 2
"""Workers that may die over one step before it counts as failed."""

LOOK_S = 0.2
"""How often a wait for an answer looks whether anybody still wants it [s]."""

_log = logging.getLogger("headrace.torch")


class Line:
    """Hands steps to a worker and answers to who waits for them. Thread-safe.

    One of the waiting threads looks for answers, for all of them.
    """

    def __init__(self, worker: WorkerProcess, plan: Plan) -> None:
        self._worker = worker
        self._plan = plan
        self._changed = threading.Condition()
        self._number = 0
        self._in_hand: dict[int, int] = {}  # in the order in which answers come
        self._wanted: set[int] = set()
        self._answers: dict[int, Made | Failed | DatasetError] = {}
        self._deaths: Counter[int] = Counter()
        self._is_watched = False

    def make(self, step: int, abandoned: Callable[[], bool]) -> Made | Failed:
        """Let a step be made; where the worker dies, by the one that takes its place.

        Args:
            step: What to make.
            abandoned: Whether nobody waits for it any more.

        Raises:
            CallerError: it was abandoned.
            DatasetError: ``MOST_DEATHS`` workers died over it, or its batch cannot be received.
        """
        number = self._hand_in(step)
        try:
            while not abandoned():
                answer = self._look_for(number)
                if isinstance(answer, DatasetError):
                    raise answer
                if answer is not None:
                    return answer
        finally:
            self._forget(number)
        raise CallerError(f"step {step} is not wanted any more")

    def _hand_in(self, step: int) -> int:
        with self._changed:
            self._number += 1
            self._in_hand[self._number] = step
            self._wanted.add(self._number)
            self._worker.send(Asked(self._number, step))
            return self._number

    def _forget(self, number: int) -> None:
        with self._changed:
            self._wanted.discard(number)
            self._answers.pop(number, None)
            del self._deaths[number]

    def _look_for(self, number: int) -> Made | Failed | DatasetError | None:
        """Return an answer if it is there; else let time pass until there is something new."""
        with self._changed:
            if number in self._answers:
                return self._answers[number]
            if self._is_watched:
                self._changed.wait(LOOK_S)
                return None
            self._is_watched = True
        received = None
        try:
            received = self._worker.receive(LOOK_S)
        finally:
            with self._changed:
                self._is_watched = False
                self._take(received)
                self._changed.notify_all()
        return None

    def _take(self, received: Answered | Unreadable | Death | None) -> None:
        if isinstance(received, Answered):
            self._take_answer(received.number, received.content)
        elif isinstance(received, Unreadable):
            number, step = next(iter(self._in_hand.items()))
            self._take_answer(number, _unreadable(received.error, self._plan.task(step).samples))
        elif received is not None:
            self._take_death(received)

    def _take_answer(self, number: int, answer: Made | Failed | DatasetError) -> None:
        self._in_hand.pop(number, None)
        if number in self._wanted:
            self._answers[number] = answer

    def _take_death(self, death: Death) -> None:
        """Hand what is still wanted to the new worker; the first of it is what the old one made."""
        for number, step in self._in_hand.items():
            self._deaths[number] += 1
            if self._deaths[number] < MOST_DEATHS:
                _log.warning("%s; another one makes step %d anew", death.text, step)
            else:
                self._answers[number] = _fatal(death, self._plan.task(step).samples)
            break
        self._in_hand = {
            number: step
            for number, step in self._in_hand.items()
            if number in self._wanted and number not in self._answers
        }
        for number, step in self._in_hand.items():
            self._worker.send(Asked(number, step))


def _unreadable(error: Exception, samples: tuple[int, ...]) -> DatasetError:
    failed = DatasetError(
        f"the batch of samples {listed(samples)} cannot be received from its worker: {error!r}. "
        "Let collate_fn return tensors, arrays and plain values; each tensor in a batch is an open "
        "file, so where these are used up ('ancdata'), raise `ulimit -n`",
        samples=samples,
    )
    failed.__cause__ = error
    return failed


def _fatal(death: Death, samples: tuple[int, ...]) -> DatasetError:
    return DatasetError(
        f"{death.text}, as did the one before it. If the system ran out of memory, use fewer "
        "workers; start_method other than fork needs `if __name__ == '__main__':` in the script",
        samples=samples if death.sample is None else (death.sample,),
    )
