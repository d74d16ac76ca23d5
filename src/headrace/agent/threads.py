"""Threads for calls that may hang: a process that ends does not wait for them.

A read of storage whose server is away cannot be interrupted. ``ThreadPoolExecutor`` and
``asyncio.to_thread`` wait for it when the process ends, for as long as it hangs; the threads
here are daemons.

A call that comes back while the interpreter is being taken down may abort the process inside
of C++, as its thread cannot be ended there. So the end waits a moment for what runs.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple["Future[Any]", Callable[[], Any]]

EXIT_PATIENCE_S = 0.5
"""Longest wait for calls that run when the process ends [s]."""

_unfinished: set[Future[Any]] = set()


class DaemonThreads(Executor):
    """``ThreadPoolExecutor`` whose calls do not keep the process from ending. Thread-safe.

    Args:
        count: Most calls that run at the same time.
        name: Of the threads.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = Semaphore(0)
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn`` as soon as a thread is free.

        Raises:
            RuntimeError: the threads were shut down.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads {self._name} were shut down; start no more calls")
            _unfinished.add(future)
            future.add_done_callback(_unfinished.discard)
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
                self._hire()
        return future

    async def run(self, call: Callable[[], T]) -> T:
        """Return what ``call`` returns; one that was not begun when cancelled never is."""
        return await asyncio.get_running_loop().run_in_executor(self, call)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Start no more calls; as the base class says."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel_queued()
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _hire(self) -> None:
        thread = Thread(target=self._work, name=self._name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _cancel_queued(self) -> None:
        with suppress(Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call[0].cancel()

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Run one call; False at the end. Nothing of it outlives it: an idle thread keeps none."""
        try:
            call = self._calls.get_nowait()
        except Empty:
            self._idle.release()
            call = self._calls.get()
        if call is None:
            return False
        _settle(*call)
        return True


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
        future.set_exception(error)
    else:
        future.set_result(result)


@atexit.register
def _wait_for_running() -> None:
    wait(list(_unfinished), EXIT_PATIENCE_S)
