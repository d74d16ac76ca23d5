"""Runs calls in threads of their own: several at once, and so that no caller waits without a bound.

hdfs-native waits for a NameNode for ever, and its calls cannot be interrupted. A call that
outlives its caller's patience is *abandoned*: its thread is written off, another may take
its place, and it ends by itself when the call returns. The threads are shared by all stores
of a process and are daemons: a call that hangs does not keep the process from ending.

A call that comes back while the interpreter is being taken down aborts the process, as its
thread cannot be ended inside of Rust. So the end waits a moment for what runs.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple["Future[Any]", Callable[[], Any]]

THREADS = 8
"""Calls of one kind that run at the same time in a process, unless more are asked for."""

ABANDONED = 64
"""Threads that may hang before calls have to queue."""

EXIT_PATIENCE_S = 2.0
"""Longest wait for calls that run when the process ends [s]."""


class Calls:
    """A small pool of daemon threads. Thread-safe."""

    def __init__(self, name: str, threads: int = THREADS) -> None:
        self._name = name
        self._limit = threads
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._closed = False
        self._running = 0
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._abandoned: set[Future[Any]] = set()

    def widen(self, threads: int) -> None:
        """Let at least this many calls run at the same time from now on."""
        with self._lock:
            self._limit = max(self._limit, threads)

    def start(self, call: Callable[[], T]) -> Future[T]:
        """Run ``call`` as soon as a thread is free."""
        future: Future[T] = Future()
        with self._lock:
            self._jobs.put((future, call))
            if self._idle:
                self._idle -= 1
            else:
                self._hire()
        return future

    def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """Return what ``call`` returns.

        Raises:
            TimeoutError: it did not within ``timeout_s``; it is abandoned.
        """
        future = self.start(call)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if not future.done():
                self.abandon(future)
                raise
            return future.result()

    def abandon(self, future: Future[Any]) -> None:
        """Give up on a call: it is not started any more, or its thread is replaced."""
        if future.cancel():
            return
        with self._lock:
            if not future.done():
                self._abandoned.add(future)
                if not self._jobs.empty():
                    self._hire()

    def close(self, patience_s: float) -> None:
        """Start nothing any more, and wait until nothing runs, or ``patience_s``."""
        with self._returned:
            self._closed = True
            self._returned.wait_for(lambda: not self._running, max(0.0, patience_s))

    def _hire(self) -> None:
        """Start one more thread if there may be one more."""
        most = self._limit + min(ABANDONED, len(self._abandoned))
        if not self._closed and self._threads < most:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._threads += 1  # not if there was no memory for one

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Run one call; False when its thread is one too many.

        Nothing of the call outlives it here: an idle thread would keep the bytes that it read.
        """
        future, call = self._jobs.get()
        with self._lock:
            if self._closed:
                return False
            self._running += 1
        if future.set_running_or_notify_cancel():
            _settle(future, call)
        with self._returned:
            self._running -= 1
            self._returned.notify_all()
            self._abandoned.discard(future)
            if self._threads > self._limit + len(self._abandoned):
                self._threads -= 1
                return False
            if self._jobs.empty():
                self._idle += 1
        return True


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - it is the caller's, whatever it is
        future.set_exception(error)
    except BaseException as panic:  # noqa: BLE001 - a panic of Rust code is no Exception
        future.set_exception(RuntimeError(f"it panicked: {panic}"))
    else:
        future.set_result(result)


_pools: dict[str, Calls] = {}
_pools_lock = threading.Lock()


def calls_for(kind: str, threads: int = THREADS) -> Calls:
    """Return this process's pool for one kind of call, which runs at least so many at once."""
    with _pools_lock:
        if kind not in _pools:
            _pools[kind] = Calls(f"headrace-storage-{kind}")
        _pools[kind].widen(threads)
        return _pools[kind]


def _forget_pools() -> None:
    """Forget the pools in a forked child: their threads stayed in the parent."""
    global _pools_lock  # noqa: PLW0603 - it may have been held when the process forked
    _pools.clear()
    _pools_lock = threading.Lock()


def _close_pools() -> None:
    give_up_at = time.monotonic() + EXIT_PATIENCE_S
    for pool in list(_pools.values()):
        pool.close(give_up_at - time.monotonic())


atexit.register(_close_pools)
os.register_at_fork(after_in_child=_forget_pools)
