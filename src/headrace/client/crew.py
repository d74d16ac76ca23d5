"""Threads that decode on the trainer: the step that is due first is worked on first."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable

from headrace.client.joining import join_all

Task = Callable[[], None]

WHEN_IDLE = math.inf
"""The step of a task that nothing waits for."""


class Crew:
    """A fixed number of daemon threads over one queue. Thread-safe.

    Threads start with the first task, so a crew that is never needed costs nothing. A task
    reports its own failures; the queue is bounded by the steps that its owner has in flight.
    """

    def __init__(self, threads: int) -> None:
        self.size = threads
        self._queue: list[tuple[float, int, Task]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(self, step: float, task: Task) -> None:
        """Queue a task for a step; once closed, it is dropped."""
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._queue, (step, next(self._order), task))
            if len(self._threads) < self.size:
                self._start_one()
            self._changed.notify()

    def drop_steps(self) -> None:
        """Drop the tasks of all steps that no thread has begun: nobody waits for them any more."""
        with self._changed:
            self._queue = [queued for queued in self._queue if queued[0] == WHEN_IDLE]
            heapq.heapify(self._queue)

    def waiting(self) -> int:
        """Return the number of tasks that no thread has begun."""
        return len(self._queue)

    def close(self, timeout_s: float) -> None:
        """Drop what is queued and wait for what is being decoded, at most ``timeout_s``."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
        join_all(self._threads, timeout_s)

    def _start_one(self) -> None:
        name = f"headrace-decode-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Task | None:
        with self._changed:
            while not self._queue:
                if self._closed:
                    return None
                self._changed.wait(1.0)
            return heapq.heappop(self._queue)[2]
