"""Trains a little under torchrun, saves a checkpoint to any store, and goes on from the newest.

    torchrun --nproc-per-node 2 examples/checkpoints.py hdfs://namenode:8020/runs/7
    torchrun --nproc-per-node 4 examples/checkpoints.py hdfs://namenode:8020/runs/7

Run again, also with another number of ranks, it goes on where it was. A plain path works as well.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

from headrace.core.errors import NotFoundError
from headrace.storage.opening import open_storage
from headrace.torch import CheckpointReader, CheckpointWriter

STEPS = 20


def newest(runs: str) -> str | None:
    """Return the name of the newest checkpoint, as its writer noted it."""
    try:
        return open_storage(runs).read("latest").decode()
    except NotFoundError:
        return None


def main(runs: str) -> None:
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    begin = 0

    if (name := newest(runs)) is not None:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": 0}
        reader = CheckpointReader(f"{runs}/{name}")
        dcp.load(state, storage_reader=reader)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        begin = state["step"]
        print(f"rank {dist.get_rank()} goes on at step {begin}: {reader.statistics()}")

    for _ in range(begin, begin + STEPS):
        x = torch.randn(8, 64)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": begin + STEPS}
    writer = CheckpointWriter(f"{runs}/step-{begin + STEPS}", pointer="latest", keep=2)
    dcp.save(state, storage_writer=writer)
    if dist.get_rank() == 0:
        print(f"saved step {begin + STEPS}, loss {loss.item():.3f}: {writer.statistics()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
