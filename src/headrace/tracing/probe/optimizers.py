"""Watches optimisers: of a program without a DataLoader, they tell where its steps end."""

from __future__ import annotations

import time
import weakref
from typing import Any

from .tracer import Tracer, Watcher


class Optimizers:
    """Watches torch's optimisers in one process."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watcher = Watcher("steps of optimizers")
        self._first: weakref.ref[Any] | None = None
        self._ended_at = 0
        self._steps = 0

    def watch(self, module: Any) -> None:
        """Be called after every step of an optimiser."""
        module.register_optimizer_step_post_hook(
            lambda optimizer, *_: self._watcher.try_to(self._stepped, optimizer)
        )

    def _stepped(self, optimizer: Any) -> None:
        """Record a step from one call of the first optimiser to the next."""
        if self._tracer.has_loader:
            return
        self._tracer.begin_steps(has_loader=False)
        first, now = self._first and self._first(), time.perf_counter_ns()
        if first is None:
            self._first = weakref.ref(optimizer)
        elif first is optimizer:
            self._steps += 1
            name = type(optimizer).__name__
            took = now - self._ended_at
            self._tracer.record("step", self._ended_at, took, name=name, step=self._steps)
        else:
            return
        self._ended_at = now
