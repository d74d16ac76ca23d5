"""The side of a contender: takes batches when the benchmark says so, and tells how long it waited.

Needs numpy only. A contender is a module that is run by its own Python, with the folder of the
photographs, the descriptor of its end of the line, and its settings in JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 32
"""Samples of a batch."""

READY = 8
"""Batches that a loader may have ready, where it can be told."""

SHUFFLED = 1024
"""Samples that are shuffled with each other, where a loader wants a bound."""

Settings = dict[str, Any]
"""What a contender is tuned by."""


def serve(
    open_batches: Callable[[Path, Settings], Iterator[Any]],
    *,
    others: Callable[[], Sequence[int]] = list,
) -> None:
    """Take batches until the benchmark ends it.

    Args:
        open_batches: Of the folder and the settings; yields without end.
        others: Processes outside the training process that work for it, once there are batches.
    """
    folder, line, settings = Path(sys.argv[1]), Connection(int(sys.argv[2])), sys.argv[3]
    batches = open_batches(folder, json.loads(settings))
    first = described(next(batches))
    line.send({"others": list(others()), **first})
    while (order := line.recv()) is not None:
        line.send(taken(batches, **order))


def described(batch: Any) -> dict[str, Any]:
    """Return what tells whether a batch is one of normalised crops."""
    values = np.asarray(batch)
    return {
        "shape": values.shape,
        "dtype": str(values.dtype),
        "mean": float(values.mean()),
        "deviation": float(values.std()),
    }


def taken(batches: Iterator[Any], *, steps: int, step_s: float) -> list[float]:
    """Take batches, and work on each as long as a step takes: an accelerator's work is a sleep.

    Returns:
        How long each was waited for [s].
    """
    waits_s = []
    for _ in range(steps):
        asked = time.perf_counter()
        next(batches)
        waits_s.append(time.perf_counter() - asked)
        if step_s:
            time.sleep(step_s)
    return waits_s
