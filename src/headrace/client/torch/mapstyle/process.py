"""One worker process, as the training process sees it."""

from __future__ import annotations

import pickle
import signal
import time
from contextlib import suppress
from ctypes import c_int64
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import register_after_fork

from headrace.client.torch.mapstyle.recipe import Plan, Recipe
from headrace.client.torch.mapstyle.worker import NONE, Answered, Asked, Post, serve
from headrace.core.errors import ConfigError

LEAVE_S = 1.0
"""Time that a worker has to end by itself, and then when it is terminated [s]."""


@dataclass(frozen=True, slots=True)
class Death:
    """A worker died, and another one took its place."""

    sample: int | None
    """What it made; None: nothing just then."""

    text: str
    """How it ended, for a person."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The worker's next answer came, and what it holds cannot be made here."""

    error: Exception


class WorkerProcess:
    """A process that answers in order; where it dies, another one takes its place.

    ``send`` and ``receive`` may be called by two threads at the same time.
    """

    def __init__(self, context: BaseContext, recipe: Recipe, plan: Plan, post: Post) -> None:
        self._context = context
        self._recipe = recipe
        self._plan = plan
        self._post = post
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

    @property
    def is_started(self) -> bool:
        """Whether the process was started; it is for as long as the loader lives."""
        return self._process is not None

    def start(self) -> None:
        """Start the process.

        Raises:
            ConfigError: the dataset cannot be sent to it.
        """
        ours, theirs = self._context.Pipe()
        # Forked workers would hold this end open as well, and never learn that the process is gone.
        register_after_fork(ours, Connection.close)
        self._current = self._context.RawValue(c_int64, NONE)
        process: BaseProcess = self._context.Process(  # type: ignore[attr-defined]
            target=serve,
            args=(theirs, self._recipe, self._plan, self._post, self._current),
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

    def send(self, asked: Asked) -> None:
        """Ask for a step; if the worker is dead, ``receive`` tells."""
        assert self._connection is not None
        with suppress(OSError):
            self._connection.send(asked)

    def receive(self, timeout_s: float) -> Answered | Unreadable | Death | None:
        """Wait for an answer; None: none came in time."""
        assert self._connection is not None and self._process is not None
        ready = wait([self._connection, self._process.sentinel], timeout_s)
        if self._connection not in ready:
            return self._bury(None) if ready else None
        try:
            data = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            return self._bury(error)
        try:
            answer: Answered = ForkingPickler.loads(data)
        except Exception as error:  # noqa: BLE001 - unpickling runs the code of the batch's classes
            if isinstance(error, (EOFError, OSError)) and self._ends():
                return self._bury(error)  # tensors are fetched from it meanwhile
            return Unreadable(error)
        return answer

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

    def _ends(self) -> bool:
        """Return whether the process has ended, or does in a moment."""
        assert self._process is not None
        self._process.join(LEAVE_S)
        return not self._process.is_alive()

    def _bury(self, trouble: Exception | None) -> Death:
        """Say over what the process died, and start another one in its place.

        Args:
            trouble: Why nothing more can be received of it; None: it ended.
        """
        assert self._process is not None and self._connection is not None
        sample = self.sample
        self._process.join(LEAVE_S)
        over = "between two samples" if sample is None else f"while it made sample {sample}"
        text = f"worker {self._post.number} of the dataset {_cause(self._process, trouble)} {over}"
        _end(self._process)
        self._connection.close()
        self.deaths += 1
        self.start()
        return Death(sample, text)


def _end(process: BaseProcess) -> None:
    """End a process by force, if it has not ended."""
    for insist in (process.terminate, process.kill):
        if process.is_alive():
            insist()
            process.join(LEAVE_S)


def _cause(process: BaseProcess, trouble: Exception | None) -> str:
    code = process.exitcode
    if code is None:
        return f"gave an answer that cannot be received ({trouble!r})"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"
