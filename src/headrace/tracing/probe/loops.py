"""Watches loops over torch's DataLoader: each step, and what of it the loop stood still."""

from __future__ import annotations

import functools
import time
import weakref
from typing import Any

from .loads import watch_fetchers
from .tracer import Tracer, Watcher


def watch_dataloader(module: Any, tracer: Tracer) -> None:
    """Watch every loop over a DataLoader, and every batch that is made for one."""
    watch_fetchers(module, tracer)
    loops = _Loops(tracer)
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter
    loader.__iter__ = loops.watch_beginning(loader.__iter__)
    iterator.__next__ = loops.watch_requests(iterator.__next__)


class _Loop:
    """What is known of a loader's loops."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = -1
        self.next_step = 0
        """Number of the batch that comes next, over all epochs."""

        self.preparing_ns = 0
        """What the loop's beginning took, before its first request [ns]."""

        self.asked_at: int | None = None
        """When the batch that the loop is at was asked for [ns]; None: it is at none."""


class _Loops:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watcher = Watcher("loops over DataLoaders")
        self._of_loaders: weakref.WeakKeyDictionary[Any, _Loop] = weakref.WeakKeyDictionary()
        self._left: dict[str, _Loop] = {}
        """Of loaders that are gone: the next over such a dataset goes on with their numbers."""

        self._of_iterators: weakref.WeakKeyDictionary[Any, _Loop] = weakref.WeakKeyDictionary()

    def watch_beginning(self, begin: Any) -> Any:
        """Return ``DataLoader.__iter__``, watched."""

        @functools.wraps(begin)
        def watched(loader: Any) -> Any:
            began = time.perf_counter_ns()
            self._watcher.try_to(self._begin, loader)
            iterator = begin(loader)
            self._watcher.try_to(self._begun, loader, iterator, began)
            return iterator

        return watched

    def watch_requests(self, request: Any) -> Any:
        """Return ``__next__`` of a DataLoader's iterators, watched."""

        @functools.wraps(request)
        def watched(iterator: Any) -> Any:
            began = time.perf_counter_ns()
            self._watcher.try_to(self._ask, iterator, began)
            batch = request(iterator)
            self._watcher.try_to(self._given, iterator, began)
            return batch

        return watched

    def _begin(self, loader: Any) -> None:
        """Say what workers that start now begin with."""
        loop = self._loop_of(loader)
        loop.epoch += 1
        loop.asked_at = None
        self._stand_at(loop)
        self._tracer.publish()

    def _loop_of(self, loader: Any) -> _Loop:
        loop = self._of_loaders.get(loader)
        if loop is None:
            name = type(loader.dataset).__name__
            loop = self._of_loaders[loader] = self._left.pop(name, _Loop(name))
            weakref.finalize(loader, self._left.__setitem__, name, loop).atexit = False
        return loop

    def _begun(self, loader: Any, iterator: Any, began: int) -> None:
        loop = self._of_loaders[loader]
        loop.preparing_ns = time.perf_counter_ns() - began
        self._of_iterators[iterator] = loop

    def _ask(self, iterator: Any, now: int) -> None:
        loop = self._of_iterators[iterator]
        if loop.asked_at is not None:
            began = loop.asked_at
            self._record("step", loop, loop.next_step - 1, began, now - began)
        loop.asked_at = None
        self._stand_at(loop)

    def _given(self, iterator: Any, asked_at: int) -> None:
        loop = self._of_iterators[iterator]
        began, loop.preparing_ns = asked_at - loop.preparing_ns, 0
        self._record("wait", loop, loop.next_step, began, time.perf_counter_ns() - began)
        loop.asked_at = began
        loop.next_step += 1

    def _stand_at(self, loop: _Loop) -> None:
        self._tracer.begin_steps(has_loader=True)
        self._tracer.standing.epoch = loop.epoch
        self._tracer.standing.step = loop.next_step

    def _record(self, kind: str, loop: _Loop, step: int, began: int, took: int) -> None:
        self._tracer.record(kind, began, took, name=loop.name, epoch=loop.epoch, step=step)
