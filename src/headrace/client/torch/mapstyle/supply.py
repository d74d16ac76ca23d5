"""Makes the steps of a map-style dataset ahead of the loop, or, without workers, inside it."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headrace.client.batch import Batch, Replaced
from headrace.client.counts import Counts
from headrace.client.held import Held
from headrace.client.machinery import JOIN_S, Ahead
from headrace.client.prefetch import Prefetcher, PrefetchLimits
from headrace.client.torch.mapstyle.errors import DatasetError
from headrace.client.torch.mapstyle.line import AT_ONCE, Line
from headrace.client.torch.mapstyle.pinning import nbytes_of, pinned
from headrace.client.torch.mapstyle.process import LEAVE_S, WorkerProcess
from headrace.client.torch.mapstyle.recipe import Failed, Made, Plan, Recipe, make
from headrace.client.torch.mapstyle.worker import Post, serve
from headrace.client.work import Gathered
from headrace.core.errors import DeadlineError


class CollatedBatch(Batch):
    """What a user's collate function made of a step, in the place of columns."""

    __slots__ = ("value",)

    def __init__(self, value: Any, **about: Any) -> None:
        super().__init__({}, {}, **about)
        self.value = value
        self._nbytes = nbytes_of(value)


class InlineSupply:
    """Makes each step when it is asked for, and leaves random generators as they were."""

    def __init__(self, plan: Plan, recipe: Recipe) -> None:
        self._plan = plan
        self._recipe = recipe
        self.ahead = Ahead(0, 0)
        self.deaths = 0

    def aim(self, step: int) -> None:
        """Nothing is made ahead."""

    def take(self, step: int) -> Gathered:
        """Make a step."""
        begin = time.monotonic()
        with _generators_kept():
            answer = make(self._recipe, self._plan.task(step), lambda _: None)
        return _gathered(self._plan, step, answer, begin)

    def took(self, step: int, *, worked_s: float | None, wait_s: float, counts: Counts) -> None:
        """Nothing hurries."""

    def close(self) -> None:
        """Nothing is left behind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workforce:
    """How many processes work, how they are started, and how far ahead."""

    workers: int
    start_method: str | None
    begin: Callable[[int], None] | None
    limits: PrefetchLimits
    timeout_s: float


class ProcessSupply:
    """Makes steps in processes: whichever is free makes the next one, and order is kept."""

    def __init__(self, plan: Plan, recipe: Recipe, force: Workforce) -> None:
        context = multiprocessing.get_context(force.start_method)
        context.set_forkserver_preload(["__main__", serve.__module__])
        posts = [
            Post(number=number, of=force.workers, begin=force.begin)
            for number in range(force.workers)
        ]
        self._plan = plan
        self._force = force
        self._workers = [WorkerProcess(context, recipe, plan, post) for post in posts]
        self._lines = [Line(worker, plan) for worker in self._workers]
        self._prefetcher: Prefetcher | None = None
        self._expected: int | None = None
        self.ahead = Ahead(0, 0)

    @property
    def deaths(self) -> int:
        """How often a worker died and was started again."""
        return sum(worker.deaths for worker in self._workers)

    def aim(self, step: int) -> None:
        """Make sure that ``step`` is the next one that is made.

        Raises:
            ConfigError: the dataset cannot be sent to the workers.
        """
        if self._expected == step:
            return
        self._stop_prefetching()
        self._start_workers()
        prefetcher = Prefetcher(step, self._force.limits, Held())
        prefetcher.start(
            [_Gatherer(self._plan, line, prefetcher) for line in AT_ONCE * self._lines]
        )
        self._prefetcher, self._expected = prefetcher, step

    def take(self, step: int) -> Gathered:
        """Wait for a step and hand it over; an error ends the prefetching.

        Raises:
            DatasetError: the dataset's code failed on it.
            DeadlineError: it did not come in time.
        """
        self.aim(step)
        assert self._prefetcher is not None
        self.ahead = Ahead(
            self._prefetcher.ready_nowait(step), self._prefetcher.ready_bytes_nowait()
        )
        self._expected = None  # until the step is here: an interrupt may come after it was taken
        try:
            gathered = self._prefetcher.take(step, self._force.timeout_s)
        except DeadlineError as error:
            busy = sorted(one.sample for one in self._workers if one.sample is not None)
            self._stop_prefetching()
            raise DeadlineError(f"{error}; workers are at samples {busy}") from None
        except Exception:
            self._stop_prefetching()
            raise
        self._expected = step + 1
        return gathered

    def took(self, step: int, *, worked_s: float | None, wait_s: float, counts: Counts) -> None:
        """Workers hurry whatever the loop does."""

    def close(self) -> None:
        """End threads and processes; may be called again."""
        self._stop_prefetching()
        for worker in self._workers:
            worker.close()
        deadline = time.monotonic() + LEAVE_S
        for worker in self._workers:
            worker.join(deadline)

    def _start_workers(self) -> None:
        for worker in self._workers:
            if not worker.is_started:
                worker.start()

    def _stop_prefetching(self) -> None:
        prefetcher, self._prefetcher, self._expected = self._prefetcher, None, None
        if prefetcher is not None:
            prefetcher.stop()
            prefetcher.join(JOIN_S)


class _Gatherer:
    """One prefetching thread's place in a worker's line."""

    def __init__(self, plan: Plan, line: Line, prefetcher: Prefetcher) -> None:
        self._plan = plan
        self._line = line
        self._prefetcher = prefetcher
        self._pins = torch.cuda.is_available()

    def gather(self, step: int) -> Gathered:
        """Let the worker make a step."""
        begin = time.monotonic()
        answer = self._line.make(step, self._prefetcher.stopped)
        gathered = _gathered(self._plan, step, answer, begin)
        if self._pins:
            assert isinstance(gathered.batch, CollatedBatch)
            gathered.batch.value = pinned(gathered.batch.value)
        return gathered

    def close(self) -> None:
        """The worker goes on with the next prefetcher."""


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Put the process's random generators back as they were."""
    own, legacy, tensors = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(own)
        np.random.set_state(legacy)
        torch.set_rng_state(tensors)


def _gathered(plan: Plan, step: int, answer: Made | Failed, begin: float) -> Gathered:
    """Return a step that is to be handed over.

    Raises:
        DatasetError: making it ended with an exception.
    """
    if isinstance(answer, Failed):
        raise DatasetError(
            f"{answer.what}\n\n{answer.traceback}", samples=answer.samples
        ) from answer.error
    batch = CollatedBatch(
        answer.value,
        step=step,
        epoch=plan.schedule.epoch_of(step),
        size=answer.size,
        replaced=tuple(
            Replaced(
                step=step,
                sample=lost.sample,
                key=str(lost.sample),
                taken=lost.taken,
                reason=lost.reason,
            )
            for lost in answer.lost
        ),
    )
    seconds = time.monotonic() - begin
    return Gathered(batch, _counts(answer), begin, seconds, peak_bytes=batch.nbytes)


def _counts(made: Made) -> Counts:
    substituted = sum(lost.taken is not None for lost in made.lost)
    return Counts(
        samples=made.size,
        local=made.size,
        substituted=substituted,
        dropped=len(made.lost) - substituted,
        transform_s=made.seconds,
        cpu_s=made.cpu_s,
    )
