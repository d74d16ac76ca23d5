"""Runs tasks in processes of their own, some at a time.

None outlives an error, an interrupt or the parent. ``concurrent.futures`` ends its workers only
when their tasks are done, and does not tell which one was killed.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeAlias, TypeVar

from headrace.core.errors import HeadraceError, RemoteError

T = TypeVar("T")

Tell: TypeAlias = Callable[[float], None]
Task: TypeAlias = Callable[[Tell], T]
"""Does something and tells how far it is. It is pickled, and so are what it tells and returns."""


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    result: T


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    process: SpawnProcess
    pipe: connection.Connection


def run_tasks(
    tasks: Mapping[str, Task[T]], *, processes: int, seen: Callable[[str, float], None]
) -> dict[str, T]:
    """Run tasks as ``run_apart`` does; in this process if only one is to run at a time."""
    if processes == 1 or len(tasks) == 1:
        return {name: task(partial(seen, name)) for name, task in tasks.items()}
    return run_apart(tasks, processes=processes, seen=seen)


def run_apart(
    tasks: Mapping[str, Task[T]],
    *,
    processes: int,
    seen: Callable[[str, float], None] = lambda *_: None,
) -> dict[str, T]:
    """Run each task once and return the results by name, in the order of the tasks.

    Args:
        tasks: By name.
        processes: How many run at a time, at least 1.
        seen: Called in this process with a task's name and what it tells.

    Raises:
        RemoteError: a process ended without a result.
        HeadraceError: as a task raised it.
    """
    results: dict[str, T] = {}
    waiting = deque(tasks.items())
    running: dict[connection.Connection, _Child] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                with _interrupts_held():
                    child = _start(*waiting.popleft())
                    running[child.pipe] = child
            for pipe in connection.wait(list(running)):
                child = running[pipe]  # type: ignore[index]  # what waits is a key
                message: float | _Done[T] = _received(child)
                if isinstance(message, _Done):
                    results[child.name] = message.result
                    _end(running.pop(child.pipe))
                else:
                    seen(child.name, message)
    finally:
        for child in running.values():
            child.process.kill()
        for child in running.values():
            _end(child)
    return {name: results[name] for name in tasks}


def _start(name: str, task: Task[T]) -> _Child:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, task), name=name, daemon=True)
    with theirs:
        process.start()
    return _Child(name, process, ours)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start a process within: it never hears SIGINT, and none comes before it has its task.

    A terminal interrupts all processes, and this one ends the others. A child inherits the mask
    of the thread that starts it; here any thread may be hit, so the handler waits as well.
    """
    resource_tracker.ensure_running()  # else starting a process would, and unblocks SIGINT then
    is_main = threading.current_thread() is threading.main_thread()
    came: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if is_main:  # no other thread may set a handler, or is interrupted by one
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_main:
            signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def _received(child: _Child) -> float | _Done[T]:
    try:
        message: float | _Done[T] | HeadraceError = child.pipe.recv()
    except (EOFError, OSError):  # the latter in the middle of a message
        child.process.join()
        raise RemoteError(_loss(child.name, child.process.exitcode or 0)) from None
    if isinstance(message, HeadraceError):
        raise message
    return message


def _loss(name: str, code: int) -> str:
    if code >= 0:
        return f"the process of {name} ended with exit code {code}; its own words say why"
    return (
        f"the process of {name} was ended by {signal.Signals(-code).name}; if memory is short "
        "(the kernel's log tells), run fewer at a time"
    )


def _end(child: _Child) -> None:
    child.process.join()
    child.process.close()
    child.pipe.close()


def _run(pipe: connection.Connection, task: Task[T]) -> None:
    """Run a task in this process, for whoever holds the pipe's other end."""
    with suppress(BrokenPipeError):  # nobody does any more
        answer: _Done[T] | HeadraceError
        try:
            answer = _Done(task(pipe.send))
        except HeadraceError as error:
            answer = error
        pipe.send(answer)
