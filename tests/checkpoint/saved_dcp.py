"""Checkpoints that torch's own writer wrote for several ranks, without any process but this one.

Each rank plans and writes as ``dcp.save`` does, with the same planner and writer; only what they
would tell each other through a process group is handed over here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
    SavePlan,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

ROWS, WIDTH, LAYERS, VOCABULARY = 10, 16, 3, 50


def full_state() -> dict[str, Any]:
    """A small transformer with a shared embedding, its optimizer, and what is no tensor."""
    numbers = torch.Generator().manual_seed(3)
    model = {
        f"layers.{layer}.{name}": torch.randn(shape, generator=numbers).to(torch.bfloat16)
        for layer in range(LAYERS)
        for name, shape in (("wq", (ROWS, WIDTH)), ("w1", (2 * ROWS, WIDTH)), ("norm", (WIDTH,)))
    }
    moments = {name: torch.randn(one.shape, generator=numbers) for name, one in model.items()}
    return {
        "model": model,
        "embedding": torch.randn(VOCABULARY, WIDTH, generator=numbers),
        "optimizer": {"exp_avg": moments, "step": torch.tensor(7.0)},
        "train_state": {"step": 7, "data": b"position"},
    }


def save_dcp(folder: Path, *, world: int, threads: int = 1) -> Path:
    """Write ``full_state`` as FSDP's ranks do: rows in shards, the embedding on all ranks."""
    writer = FileSystemWriter(folder, thread_count=threads, sync_files=False)
    writer.set_up_storage_writer(True)
    planned = [_plan(rank, world) for rank in range(world)]
    locally = [writer.prepare_local_plan(plan) for _, plan in planned]
    plans, metadata = planned[0][0].create_global_plan(locally)
    plans = writer.prepare_global_plan(plans)
    results = [
        writer.write_data(planner.finish_plan(plan), planner).value()
        for (planner, _), plan in zip(planned, plans, strict=True)
    ]
    writer.finish(metadata, results)
    return folder


def _plan(rank: int, world: int) -> tuple[DefaultSavePlanner, SavePlan]:
    planner = DefaultSavePlanner()
    with _as_rank(rank, world):
        planner.set_up_planner(_sharded(full_state(), world), is_coordinator=rank == 0)
        return planner, planner.create_local_plan()


def _sharded(state: Any, world: int, name: str = "") -> Any:
    if isinstance(state, dict):
        return {key: _sharded(value, world, key) for key, value in state.items()}
    if not isinstance(state, torch.Tensor):
        return state
    mesh = init_device_mesh("cpu", (world,))
    if not state.dim() or name == "embedding":
        return DTensor.from_local(state, mesh, [Replicate()], run_check=False)
    chunks = list(state.chunk(world)) + [state[:0]] * world
    local = chunks[dist.get_rank()].contiguous()
    return DTensor.from_local(
        local, mesh, [Shard(0)], run_check=False, shape=state.shape, stride=state.stride()
    )


@contextmanager
def _as_rank(rank: int, world: int) -> Iterator[None]:
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def load_plan(folder: Path, *, rank: int, world: int) -> set[tuple[str, int, int]]:
    """Return file, offset and length of all that a rank of FSDP reads, as torch plans it."""
    metadata = FileSystemReader(folder).read_metadata()
    planner = DefaultLoadPlanner()
    with _as_rank(rank, world):
        planner.set_up_planner(_sharded(full_state(), world), metadata, is_coordinator=rank == 0)
        items = planner.create_local_plan().items
    places = [metadata.storage_data[item.storage_index] for item in items]
    return {(place.relative_path, place.offset, place.length) for place in places}
