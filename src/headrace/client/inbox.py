"""Hands results from decoding threads to the thread that gathers a step, and wakes it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.client.maker import Made
from headrace.core.draws import SampleKey
from headrace.core.parts import WHOLE, SamplePart


@dataclass(frozen=True, slots=True)
class Delivery:
    """The end of one decoding task."""

    step: int
    key: SampleKey
    part: SamplePart
    outcome: Made | BaseException
    begin: float
    """When the task began, monotonic [s]."""

    cpu_s: float
    """CPU that the task took [s]."""


class Inbox:
    """Many writers, one reader, who may wait on ``fileno`` together with sockets."""

    def __init__(self) -> None:
        self._items: deque[Delivery] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._wanted = 1
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def put(self, delivery: Delivery) -> None:
        """Leave a result; the reader wakes when there are as many as it wants, or one failed."""
        self._items.append(delivery)
        if len(self._items) >= self._wanted or isinstance(delivery.outcome, BaseException):
            self._wake()

    def want(self, results: int) -> None:
        """Let ``fileno`` become readable when so many results lie here."""
        self._wanted = results
        if len(self._items) >= results:
            self._wake()

    def _wake(self) -> None:
        """Make ``fileno`` readable. A full pipe is no loss: it is readable already."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writer, b"!")

    def take(self) -> list[Delivery]:
        """Return all results left so far; never waits."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 4096)
        taken = []
        while self._items:
            taken.append(self._items.popleft())
        return taken

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to take."""
        return self._reader

    def close(self) -> None:
        """Close the pipe; results that come later are dropped."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)


class TakesDeliveries(Protocol):
    """Takes the results of decoding tasks. Thread-safe."""

    def put(self, delivery: Delivery) -> None:
        """Take in one."""
        ...


class MakingTask:
    """One sample or part for the decoding threads: always leaves exactly one result."""

    def __init__(
        self,
        step: int,
        key: SampleKey,
        make: Callable[[], Made],
        inbox: TakesDeliveries,
        part: SamplePart = WHOLE,
    ) -> None:
        self._step = step
        self._key = key
        self._part = part
        self._make = make
        self._inbox = inbox

    def __call__(self) -> None:
        """Make it, and leave what came of it in the inbox."""
        begin, begin_cpu = time.monotonic(), time.thread_time()
        try:
            outcome: Made | BaseException = self._make()
        except BaseException as error:  # noqa: BLE001 - it is raised where the step is gathered
            outcome = error
        cpu_s = time.thread_time() - begin_cpu
        self._inbox.put(Delivery(self._step, self._key, self._part, outcome, begin, cpu_s))
