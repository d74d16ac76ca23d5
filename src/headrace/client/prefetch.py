"""Keeps the next steps coming: in the background, in order, within a budget of memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.client.held import Held
from headrace.client.joining import join_all
from headrace.client.work import Gathered
from headrace.core.errors import CallerError, DeadlineError


class GathersSteps(Protocol):
    """Makes one step after another; each prefetching thread has one of its own."""

    def gather(self, step: int) -> Gathered:
        """Make a step."""
        ...

    def close(self) -> None:
        """Release what it holds; called by the thread that used it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefetchStatistics:
    """How far ahead of the loop the prefetcher is."""

    ready_steps: int
    ready_bytes: int
    making_steps: int
    budget_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefetchLimits:
    """How far ahead of the loop steps may be made."""

    steps: int
    """Steps that are ready or in the making."""

    budget_bytes: int
    """Memory that they may hold [bytes]; a single step is made whatever its size."""


class Prefetcher:
    """Makes steps ahead. ``take`` is for one thread; everything else is thread-safe."""

    def __init__(
        self,
        first_step: int,
        limits: PrefetchLimits,
        held: Held,
        *,
        reserved: Callable[[], int] = lambda: 0,
    ) -> None:
        """Begin with a step once started.

        Args:
            first_step: The first one that is made.
            limits: How far ahead of the loop.
            held: How long the job's quota holds it back.
            reserved: Returns how much of the budget is for other things now [bytes].
        """
        self._limits = limits
        self._reserved = reserved
        self._held = held
        self._next = first_step
        self._ready: dict[int, Gathered | BaseException] = {}
        self._making = 0
        self._ready_bytes = 0
        self._largest: int | None = None
        self._stopped = self._failed = False
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    def start(self, gatherers: Sequence[GathersSteps]) -> None:
        """Begin, with one thread for each gatherer."""
        for number, one in enumerate(gatherers):
            name = f"headrace-prefetch-{number}"
            thread = threading.Thread(target=self._work, args=(one,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self, step: int, timeout_s: float) -> Gathered:
        """Wait for a step and hand it over; steps are taken in order.

        Raises:
            CallerError: the prefetcher was stopped.
            DeadlineError: it did not come within ``timeout_s``, and no quota was why.
            BaseException: whatever making the step ended with.
        """
        begin = time.monotonic()
        with self._changed:
            while step not in self._ready:
                if self._stopped:
                    raise CallerError(f"the loader was closed while step {step} was waited for")
                left = self._held.deadline(begin, timeout_s) - time.monotonic()
                if left <= 0:
                    raise DeadlineError(f"step {step} did not come within {timeout_s:g} s")
                self._changed.wait(min(left, 1.0))
            result = self._ready.pop(step)
            if isinstance(result, Gathered):
                self._ready_bytes -= result.batch.nbytes
            self._changed.notify_all()
        if isinstance(result, BaseException):
            raise result
        return result

    def ready_nowait(self, step: int) -> int:
        """Return how many steps lie ready from ``step`` on, with none between that does not.

        Takes no lock: for the training thread. Steps behind one that is late are of no use yet.
        """
        late = step
        while late in self._ready:
            late += 1
        return late - step

    def ready_bytes_nowait(self) -> int:
        """Return what the steps that lie ready hold [bytes]; takes no lock either."""
        return self._ready_bytes

    def capacity(self) -> int:
        """Return how many steps may lie ready: as many as memory allows, once their size shows."""
        if not self._largest:
            return self._limits.steps
        return max(1, min(self._limits.steps, self._budget_bytes() // self._largest))

    def statistics(self) -> PrefetchStatistics:
        """Describe what is ready and in the making."""
        with self._changed:
            return PrefetchStatistics(
                ready_steps=len(self._ready),
                ready_bytes=self._ready_bytes,
                making_steps=self._making,
                budget_bytes=self._budget_bytes(),
            )

    def stop(self) -> None:
        """Begin no further step; what is ready is dropped. Does not wait."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._ready_bytes = 0
            self._changed.notify_all()

    def stopped(self) -> bool:
        """Return whether ``stop`` was called; a gatherer asks it while it waits."""
        return self._stopped

    def join(self, timeout_s: float) -> None:
        """Wait for the threads to end, at most ``timeout_s``."""
        join_all(self._threads, timeout_s)

    def _work(self, gatherer: GathersSteps) -> None:
        try:
            while (step := self._claim()) is not None:
                self._deliver(step, self._gathered(gatherer, step))
        finally:
            gatherer.close()

    def _gathered(self, gatherer: GathersSteps, step: int) -> Gathered | BaseException:
        try:
            return gatherer.gather(step)
        except BaseException as error:  # noqa: BLE001 - raised again in the training thread
            return error

    def _claim(self) -> int | None:
        """Wait until another step may be begun, and return its number; None when stopped."""
        with self._changed:
            while not self._stopped and not self._has_room():
                self._changed.wait(1.0)
            if self._stopped:
                return None
            step, self._next = self._next, self._next + 1
            self._making += 1
            return step

    def _has_room(self) -> bool:
        if self._failed:
            return False
        if not self._making and not self._ready:
            return True
        if self._largest is None or self._making + len(self._ready) >= self._limits.steps:
            return False
        wanted = self._ready_bytes + (self._making + 1) * self._largest
        return wanted <= self._budget_bytes()

    def _budget_bytes(self) -> int:
        return self._limits.budget_bytes - self._reserved()

    def _deliver(self, step: int, result: Gathered | BaseException) -> None:
        with self._changed:
            self._making -= 1
            if self._stopped:
                return
            self._ready[step] = result
            if isinstance(result, Gathered):
                self._ready_bytes += result.batch.nbytes
                self._largest = max(self._largest or 0, result.peak_bytes)
            else:
                self._failed = True
            self._changed.notify_all()
