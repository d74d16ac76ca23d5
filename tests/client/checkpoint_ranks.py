"""Ranks of a job in forked processes, with torch's own process group between them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

_FORK = multiprocessing.get_context("fork")

WAIT_S = 60.0


def run_ranks(
    world: int, work: Callable[[int], Any], folder: Path, *, killed: int | None = None
) -> list[Any]:
    """Run ``work(rank)`` in each rank and return what they returned, or their errors' texts.

    Args:
        world: Number of ranks.
        work: Runs in a forked process with a process group (gloo).
        folder: Where ranks find each other.
        killed: A rank that kills itself, and returns nothing.
    """
    store = folder / f"store-{os.urandom(4).hex()}"
    pipes = [_FORK.Pipe(duplex=False) for _ in range(world)]
    processes = [
        _FORK.Process(target=_rank, args=(rank, world, work, store, pipes[rank][1]))
        for rank in range(world)
    ]
    for process, (_, sender) in zip(processes, pipes, strict=True):
        process.start()
        sender.close()
    try:
        return [None if rank == killed else _receive(pipes[rank][0]) for rank in range(world)]
    finally:
        for process in processes:
            process.kill()
            process.join(10)


def _receive(receiver: Connection) -> Any:
    if not wait([receiver], WAIT_S):
        raise AssertionError("a rank did not end")
    return receiver.recv()


def _rank(
    rank: int, world: int, work: Callable[[int], Any], store: Path, sender: Connection
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)  # those of the parent's pool are not here
    try:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=world
        )
        sender.send(work(rank))
    except BaseException as error:  # noqa: BLE001 - the parent looks at it
        sender.send(f"{error}\n{traceback.format_exc()}")
    finally:
        os._exit(0)
