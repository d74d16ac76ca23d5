"""CPU time that a trainer process spends on loading: all of it, but for what is set aside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


class LoadingCpu:
    """Counts the process with all its threads, and its children if asked, since it was made.

    ``aside`` leaves out what the loop's own thread does for other purposes: the proof, the
    report, a model. The emulated step is a sleep and costs nothing. For one thread.
    """

    def __init__(self, *, with_children: bool) -> None:
        self._with_children = with_children
        self._process = psutil.Process()
        self._aside_s = 0.0
        self._begin_s = self._total_s()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave out the CPU time of this thread while the block runs."""
        begin_s = time.thread_time()
        try:
            yield
        finally:
            self._aside_s += time.thread_time() - begin_s

    def seconds(self) -> float:
        """Return the CPU time spent on loading so far [s]."""
        return self._total_s() - self._begin_s - self._aside_s

    def _total_s(self) -> float:
        threads_s = time.process_time()  # first: looking at children takes time itself
        return threads_s + (self._children_s() if self._with_children else 0.0)

    def _children_s(self) -> float:
        ended = self._process.cpu_times()
        total_s: float = ended.children_user + ended.children_system
        for child in self._process.children(recursive=True):
            try:
                spent = child.cpu_times()
            except psutil.NoSuchProcess:  # it ended while we looked, and counts as ended next time
                continue
            total_s += spent.user + spent.system
        return total_s
