"""What runs in a worker process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from ctypes import c_int64
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any, cast

import torch.multiprocessing  # sends tensors in shared memory
from torch.utils.data import Dataset
from torch.utils.data._utils import worker as torch_worker

from headrace.client.torch.mapstyle.recipe import Failed, Made, Recipe, Task, make

WATCH_S = 5.0
"""How often an idle worker looks whether its parent is still there [s]."""

NONE = -1
"""No sample is being made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Post:
    """A worker's place."""

    number: int
    of: int
    """Number of workers."""

    seed: int
    begin: Callable[[int], None] | None
    """Called with the worker's number before its first sample."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A task, or what came of it."""

    number: int
    """Tells answers of tasks that nobody waits for any more from others."""

    content: Task | Made | Failed


def serve(connection: Connection, recipe: Recipe, post: Post, current: c_int64) -> None:
    """Make what is asked for until the other side is gone.

    Args:
        connection: Tasks come from it and answers go into it.
        recipe: How samples are made.
        post: Which worker this is.
        current: Shared with the parent: the sample that is being made.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(1)
    torch_worker._worker_info = torch_worker.WorkerInfo(  # for datasets, and for torch's collate
        id=post.number,
        num_workers=post.of,
        seed=post.seed,
        dataset=cast("Dataset[Any]", recipe.dataset),
    )
    failed = _begin(post)
    # An answer is kept until the next is made: shared memory is freed by who drops it last, and
    # that should be this process. Measured, it takes a training process 70 us per 0.6 MB.
    while (asked := _next(connection)) is not None:
        assert isinstance(asked.content, Task)
        answer = failed or make(recipe, asked.content, partial(_note, current))
        _note(current, NONE)
        _send(connection, Numbered(asked.number, answer), asked.content)


def _begin(post: Post) -> Failed | None:
    try:
        if post.begin is not None:
            post.begin(post.number)
    except Exception as error:  # noqa: BLE001 - any exception of the user's code
        return Failed.of(error, f"worker_init_fn({post.number}) failed")
    return None


def _next(connection: Connection) -> Numbered | None:
    """Wait for a task; None: there will be no other, or the parent is gone."""
    parent = parent_process()
    try:
        while not connection.poll(WATCH_S):
            if parent is not None and not parent.is_alive():
                return None
        received: Numbered | None = connection.recv()
    except (EOFError, OSError):
        return None
    return received


def _send(connection: Connection, answer: Numbered, task: Task) -> None:
    try:
        connection.send(answer)
    except OSError:
        return  # the parent is gone, which the next look tells
    except Exception as error:  # noqa: BLE001 - pickling runs the code of the batch's classes
        what = f"the batch of samples {list(task.samples)} cannot be sent to the training process"
        connection.send(Numbered(answer.number, Failed.of(error, what, *task.samples)))


def _note(current: c_int64, sample: int) -> None:
    current.value = sample
