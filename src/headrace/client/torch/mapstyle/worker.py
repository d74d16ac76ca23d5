"""What runs in a worker process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_int64
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

import torch.multiprocessing  # sends tensors in shared memory
from torch.utils.data import Dataset
from torch.utils.data._utils import worker as torch_worker

from headrace.client.torch.mapstyle.recipe import Failed, Made, Plan, Recipe, Task, listed, make

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

    begin: Callable[[int], None] | None
    """Called with the worker's number before its first sample."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A step that is to be made. Small: who asks must not wait until a busy worker reads it."""

    number: int
    """Tells answers to what nobody waits for any more from others."""

    step: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it."""

    number: int
    content: Made | Failed


def serve(connection: Connection, recipe: Recipe, plan: Plan, post: Post, current: c_int64) -> None:
    """Make what is asked for until the other side is gone.

    Args:
        connection: Steps come from it and answers go into it.
        recipe: How samples are made.
        plan: Which samples are those of a step.
        post: Which worker this is.
        current: Shared with the parent: the sample that is being made.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(1)
    torch_worker._worker_info = torch_worker.WorkerInfo(  # for datasets, and for torch's collate
        id=post.number,
        num_workers=post.of,
        seed=plan.schedule.spec.seed,
        dataset=cast("Dataset[Any]", recipe.dataset),
    )
    failed = _begin(post)
    # An answer is kept until the next is made: shared memory is freed by who drops it last, and
    # that should be this process. Measured, it takes a training process 70 us per 0.6 MB.
    while (asked := _next(connection)) is not None:
        task = plan.task(asked.step)
        answer = failed or make(recipe, task, partial(_note, current))
        _note(current, NONE)
        _send(connection, Answered(asked.number, answer), task)


def _begin(post: Post) -> Failed | None:
    try:
        if post.begin is not None:
            post.begin(post.number)
    except Exception as error:  # noqa: BLE001 - any exception of the user's code
        return Failed.of(error, f"worker_init_fn({post.number}) failed")
    return None


def _next(connection: Connection) -> Asked | None:
    """Wait for a step; None: there will be no other, or the parent is gone."""
    parent = parent_process()
    try:
        while not connection.poll(WATCH_S):
            if parent is not None and not parent.is_alive():
                return None
        received: Asked | None = connection.recv()
    except (EOFError, OSError):
        return None
    return received


def _send(connection: Connection, answer: Answered, task: Task) -> None:
    try:
        message = ForkingPickler.dumps(answer)
    except Exception as error:  # noqa: BLE001 - pickling runs the code of the batch's classes
        what = f"the batch of samples {listed(task.samples)} cannot be sent to the training process"
        failed = Failed.of(error, what, *task.samples)
        message = ForkingPickler.dumps(Answered(answer.number, failed))
    with suppress(OSError):  # the parent is gone, which the next look tells
        connection.send_bytes(message)


def _note(current: c_int64, sample: int) -> None:
    current.value = sample
