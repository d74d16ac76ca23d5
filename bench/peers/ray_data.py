"""Ray Data: tasks that read and decode with Pillow, on the trainer's node or on one beside it.

A block is as long as a batch, so that batches are views of the shared store, and what tasks may
make ahead is bounded as for the others. One long epoch: each start of one has the loop wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import psutil
import ray
from ray.cluster_utils import Cluster

from bench.peers.serving import BATCH, READY, Settings, serve
from bench.pictures import SIDE, write_crop

CPUS = len(os.sched_getaffinity(0))
_BLOCKS = 2000
"""Blocks of the epoch: it outlasts the benchmark."""

_BATCH_BYTES = 4 * 3 * SIDE * SIDE * BATCH
_STORE_BYTES = 1 << 30
"""Memory of each node's store [bytes]."""

_workers: list[int] = []


def batches(folder: Path, settings: Settings) -> Iterator[np.ndarray]:
    """Yield batches; ``beside`` has a node of its own do the tasks."""
    _start(beside=settings["beside"])
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.resource_limits = context.execution_options.resource_limits.copy(
        object_store_memory=3 * READY * _BATCH_BYTES
    )
    files = sorted(folder.glob("*.jpg"))
    blocks = ray.data.range(_BLOCKS * BATCH, override_num_blocks=_BLOCKS)
    crops = blocks.map_batches(
        lambda numbers: _crops(files, numbers["id"]),
        batch_size=None,
        zero_copy_batch=True,
        concurrency=settings["tasks"],
    )
    for batch in crops.iter_batches(batch_size=BATCH, prefetch_batches=READY):
        yield batch["image"]


def _start(*, beside: bool) -> None:
    if not beside:
        ray.init(
            address="local",
            num_cpus=CPUS,
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
        )
        return
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": _STORE_BYTES},
    )
    ray.init(address=cluster.address)
    before = {child.pid for child in psutil.Process().children()}
    cluster.add_node(num_cpus=CPUS, object_store_memory=_STORE_BYTES)
    _workers.extend(child.pid for child in psutil.Process().children() if child.pid not in before)


def _crops(files: Sequence[Path], numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return a crop of one random file for each number."""
    draw, out = Random(), np.empty((len(numbers), 3, SIDE, SIDE), np.float32)
    for row in out:
        write_crop(draw.choice(files).read_bytes(), draw, row)
    return {"image": out}


if __name__ == "__main__":
    serve(batches, others=lambda: _workers)
