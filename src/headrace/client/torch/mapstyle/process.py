"""One worker process, as the training process sees it."""

from __future__ import annotations

import logging
import pickle
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_int64
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

from headrace.client.torch.mapstyle.errors import DatasetError
from headrace.client.torch.mapstyle.recipe import Failed, Made, Recipe, Task
from headrace.client.torch.mapstyle.worker import NONE, Numbered, Post, serve
from headrace.core.errors import CallerError, ConfigError

MOST_DEATHS = 2
"""Workers that may die over one step before it counts as failed."""

LOOK_S = 0.2
"""How often a wait for a worker looks whether anybody still wants the answer [s]."""

LEAVE_S = 1.0
"""Time that a worker has to end by itself, and then when it is terminated [s]."""

_log = logging.getLogger("headrace.torch")


class WorkerProcess:
    """Makes one task at a time, and is started again where it dies. For one thread at a time."""

    def __init__(self, context: BaseContext, recipe: Recipe, post: Post) -> None:
        self._context = context
        self._recipe = recipe
        self._post = post
        self._number = 0
        self._current = c_int64(NONE)
        self._connection: Connection | None = None
        self._process: BaseProcess | None = None
        self.deaths = 0
        """How often it died and was started again."""

    @property
    def sample(self) -> int | None:
        """The sample that is being made now, if any."""
        current = self._current.value
        return None if current == NONE else current

    def start(self) -> None:
        """Start the process.

        Raises:
            ConfigError: the dataset cannot be sent to it.
        """
        ours, theirs = self._context.Pipe()
        self._current = self._context.RawValue(c_int64, NONE)
        process: BaseProcess = self._context.Process(  # type: ignore[attr-defined]
            target=serve,
            args=(theirs, self._recipe, self._post, self._current),
            name=f"headrace-dataset-{self._post.number}",
            daemon=True,
        )
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            ours.close()
            raise ConfigError(
                f"the dataset, collate_fn or worker_init_fn cannot be sent to a worker that is "
                f"started by {self._context.get_start_method()}: {error}. Move lambdas and local "
                "classes to the top of a module and open files and connections when they are first "
                'used, or set start_method="fork", or workers=0'
            ) from error
        finally:
            theirs.close()
        self._connection, self._process = ours, process

    def make(self, task: Task, abandoned: Callable[[], bool]) -> Made | Failed:
        """Let a task be made; where the worker dies, by a new one.

        Args:
            task: What to make.
            abandoned: Whether nobody waits for it any more.

        Raises:
            CallerError: it was abandoned.
            DatasetError: ``MOST_DEATHS`` workers died over it.
        """
        deaths = 0
        while True:
            answer = self._answer(task, abandoned)
            if answer is not None:
                return answer
            deaths += 1
            self._bury(task, again=deaths < MOST_DEATHS)

    def close(self) -> None:
        """Ask the process to end when its task is done; does not wait."""
        if self._connection is not None:
            with suppress(OSError):  # it is dead, or closed already
                self._connection.send(None)
            self._connection.close()

    def join(self, deadline: float) -> None:
        """Wait until the process has ended, after a deadline by force.

        Args:
            deadline: As ``time.monotonic`` tells it [s].
        """
        if self._process is not None:
            self._process.join(max(deadline - time.monotonic(), 0.0))
            _end(self._process)

    def _answer(self, task: Task, abandoned: Callable[[], bool]) -> Made | Failed | None:
        """Return the answer to a task; None: the worker died over it."""
        assert self._connection is not None and self._process is not None
        self._number += 1
        try:
            self._connection.send(Numbered(self._number, task))
            while not abandoned():
                ready = wait([self._connection, self._process.sentinel], LOOK_S)
                if self._connection in ready:
                    answer: Numbered = self._connection.recv()
                    if answer.number == self._number:
                        assert not isinstance(answer.content, Task)
                        return answer.content
                elif ready:
                    return None
        except (EOFError, OSError):
            return None
        raise CallerError(f"step {task.step} is not wanted any more")

    def _bury(self, task: Task, *, again: bool) -> None:
        """Start a new process in the place of one that died, and say over what it did."""
        assert self._process is not None and self._connection is not None
        sample = self.sample
        self._process.join(LEAVE_S)
        over = "before its first sample" if sample is None else f"while it made sample {sample}"
        text = f"worker {self._post.number} of the dataset {_cause(self._process)} {over}"
        _end(self._process)
        self._connection.close()
        self.deaths += 1
        self.start()
        if not again:
            samples = task.samples if sample is None else (sample,)
            raise DatasetError(
                f"{text}, as did the one before it. If the system ran out of memory, use fewer "
                "workers; start_method other than fork needs `if __name__ == '__main__':` in the "
                "script",
                samples=samples,
            )
        _log.warning("%s; another one makes step %d anew", text, task.step)


def _end(process: BaseProcess) -> None:
    """End a process by force, if it has not ended."""
    for insist in (process.terminate, process.kill):
        if process.is_alive():
            insist()
            process.join(LEAVE_S)


def _cause(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None:
        return "does not answer"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"
