"""Watches how a DataLoader's batches are made: in its workers, or in the loop's own process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from .parts import Seen, parts_of
from .tally import Tally
from .threads import Reading, process_began_ns, read_thread
from .tracer import Tracer, Watcher

_METER_BYTES = 1024
"""What watching itself reads in a load, at most [bytes]."""


def watch_fetchers(module: Any, tracer: Tracer) -> None:
    """Watch what makes a DataLoader's batches of its dataset."""
    create, watcher = module._DatasetKind.create_fetcher, Watcher("loads")

    @functools.wraps(create)
    def watched(kind: Any, dataset: Any, *arguments: Any, **named: Any) -> Any:
        fetcher = create(kind, dataset, *arguments, **named)
        loads = _Loads(type(dataset).__name__, tracer)
        watcher.try_to(loads.watch, fetcher, watcher)
        return fetcher

    module._DatasetKind.create_fetcher = staticmethod(watched)


def watch_workers(module: Any, tracer: Tracer) -> None:
    """Let a DataLoader's worker tell how long it took to start, and know which batch it is at."""
    loop, watcher = module._worker_loop, Watcher("starts of workers")

    @functools.wraps(loop)
    def watched(kind: Any, dataset: Any, tasks: Any, *arguments: Any, **named: Any) -> Any:
        watcher.try_to(_record_start, tracer)
        return loop(kind, dataset, _Tasks(tasks, tracer), *arguments, **named)

    module._worker_loop = watched


def _record_start(tracer: Tracer) -> None:
    """Record the time from this process's beginning until now, imports included."""
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - process_began_ns()
    began = time.perf_counter_ns() - age_ns
    tracer.record("call", began, age_ns, name="start of a worker")


class _Tasks:
    """A worker's queue of tasks."""

    def __init__(self, tasks: Any, tracer: Tracer) -> None:
        self._tasks = tasks
        self._standing = tracer.standing
        self._first_step = tracer.standing.step
        self._watcher = Watcher("steps of workers")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tasks, name)

    def get(self, *arguments: Any, **named: Any) -> Any:
        """Take the next task, and take note of its batch."""
        task = self._tasks.get(*arguments, **named)
        self._watcher.try_to(self._take_note, task)
        return task

    def _take_note(self, task: Any) -> None:
        if isinstance(task, tuple):
            is_known = self._first_step is not None and isinstance(task[0], int)
            self._standing.step = self._first_step + task[0] if is_known else None
        elif task is not None:  # the next epoch begins; where its steps begin, a worker cannot tell
            self._first_step = None
            self._standing.epoch = (
                None if self._standing.epoch is None else self._standing.epoch + 1
            )


class _Loads:
    """Times the loads of one fetcher, which makes one batch after the other."""

    def __init__(self, name: str, tracer: Tracer) -> None:
        self._name = name
        self._tracer = tracer
        self._begin_empty()

    def watch(self, fetcher: Any, watcher: Watcher) -> None:
        """Put timed functions in the place of those that the fetcher calls."""
        fetch = fetcher.fetch

        def watched(indices: Any) -> Any:
            outer = self._tracer.tallies.current
            watcher.try_to(self._begin)
            try:
                batch = fetch(indices)
            finally:
                tally, self._tracer.tallies.current = self._tracer.tallies.current, outer
            watcher.try_to(self._end, tally, indices)
            return batch

        fetcher.fetch = watched
        fetcher.collate_fn = self._timed_collate(fetcher.collate_fn)
        if hasattr(fetcher, "dataset_iter"):
            fetcher.dataset_iter = _Samples(fetcher.dataset_iter, self._sampled)
        else:
            fetcher.dataset = _Items(fetcher.dataset, self._sampled)

    def _begin_empty(self) -> None:
        self._collating_ns = self._samples = self._slowest_ns = 0
        self._slowest: tuple[int, Any, str | None] | None = None

    def _begin(self) -> None:
        self._begin_empty()
        self._tracer.tallies.current = Tally()
        self._before = read_thread()
        self._began = time.perf_counter_ns()

    def _timed_collate(self, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(samples: Any) -> Any:
            began = time.perf_counter_ns()
            batch = collate(samples)
            self._collating_ns += time.perf_counter_ns() - began
            return batch

        return watched

    def _sampled(self, began: int, index: Any) -> None:
        took = time.perf_counter_ns() - began
        self._samples += 1
        if took > self._slowest_ns:
            tally = self._tracer.tallies.current
            self._slowest_ns = took
            self._slowest = began, index, tally.file if tally is not None else None

    def _end(self, tally: Tally, indices: Any) -> None:
        took = time.perf_counter_ns() - self._began
        if not self._samples and isinstance(indices, list):  # the dataset fetches them together
            self._samples = len(indices)
        took_of_thread = _difference(self._before, read_thread())
        read_bytes = max(took_of_thread.read_bytes or 0, tally.read_bytes) + tally.fetched_bytes
        standing = self._tracer.standing
        place = {"epoch": standing.epoch, "step": standing.step, "name": self._name}
        self._tracer.record(
            "load",
            self._began,
            took,
            bytes=read_bytes or None,
            cpu_ns=took_of_thread.cpu_ns,
            counts={"samples": self._samples} if self._samples else None,
            **place,
        )
        self._record_parts(took, tally, took_of_thread, place)
        self._record_slowest(place)

    def _record_parts(
        self, took: int, tally: Tally, took_of_thread: Reading, place: dict[str, Any]
    ) -> None:
        parts = parts_of(
            Seen(
                took_ns=took,
                opening_ns=tally.opening_ns,
                reading_ns=tally.reading_ns,
                collating_ns=self._collating_ns,
                cpu_ns=took_of_thread.cpu_ns + (took_of_thread.cpu_wait_ns or 0),
                unseen_bytes=max(0, (took_of_thread.read_bytes or 0) - tally.read_bytes),
            )
        )
        counted = {
            "metadata": (parts.metadata, tally.opens, "open"),
            "retrieval": (parts.retrieval, tally.reads, self._name),
            "transformation": (parts.transformation, self._samples, self._name),
            "overhead": (parts.overhead, 1, self._name),
        }
        for kind, (part, count, name) in counted.items():
            if part:
                named = {**place, "name": name}
                self._tracer.record(kind, self._began, part, count=count or None, **named)

    def _record_slowest(self, place: dict[str, Any]) -> None:
        """Record the slowest sample of a batch, if anything names it."""
        if self._slowest is None or self._samples < 2:
            return
        began, index, file = self._slowest
        sample = file if index is None else str(index)
        if sample is not None:
            self._tracer.record("load", began, self._slowest_ns, sample=sample, file=file, **place)


class _Items:
    """A dataset whose samples are timed; what else it has is its own."""

    def __init__(self, dataset: Any, sampled: Callable[[int, Any], None]) -> None:
        self._dataset = dataset
        self._sampled = sampled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __getitem__(self, index: Any) -> Any:
        began = time.perf_counter_ns()
        sample = self._dataset[index]
        self._sampled(began, index)
        return sample


class _Samples:
    """An iterator whose samples are timed."""

    def __init__(self, samples: Any, sampled: Callable[[int, Any], None]) -> None:
        self._samples = samples
        self._sampled = sampled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._samples, name)

    def __iter__(self) -> _Samples:
        return self

    def __next__(self) -> Any:
        began = time.perf_counter_ns()
        sample = next(self._samples)
        self._sampled(began, None)
        return sample


def _difference(before: Reading, after: Reading) -> Reading:
    read_bytes = _less(after.read_bytes, before.read_bytes)
    return Reading(
        cpu_ns=after.cpu_ns - before.cpu_ns,
        cpu_wait_ns=_less(after.cpu_wait_ns, before.cpu_wait_ns),
        read_bytes=None if read_bytes is None else max(0, read_bytes - _METER_BYTES),
    )


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
