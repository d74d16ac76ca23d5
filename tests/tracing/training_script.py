"""An unchanged training script of two ranks: what it does is what the trace has to tell.

Both are one process and its fork, and what only they need is imported by them: importing takes
most of the time.
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

HERE = Path(sys.argv[1])
SAMPLES, BATCH, EPOCHS = 8, 2, 2


class Files(Dataset):
    """Reads a file for each sample."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        with (HERE / f"{index}.bin").open("rb") as file:
            data = file.read()
        if index == 5:
            time.sleep(0.05)
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).float()


class Lines(IterableDataset):
    """Reads a text line by line."""

    def __iter__(self):
        with (HERE / "lines.txt").open() as file:
            yield from map(len, file)


class Together(Dataset):
    """Makes the samples of a batch together."""

    def __len__(self):
        return 6

    def __getitems__(self, indices):
        return indices


class Computed(Dataset):
    """Takes processor time, and reads nothing."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return index


def train_here(model):
    for _ in range(EPOCHS):
        for batch in DataLoader(Files(), batch_size=BATCH):
            model(batch)


def train_with_workers(model):
    loader = DataLoader(Files(), batch_size=BATCH, num_workers=2, persistent_workers=True)
    for _ in range(EPOCHS):
        for batch in loader:
            model(batch)


def save_and_load(model):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    path = HERE / "model.pt"
    torch.save(model.state_dict(), path)
    torch.load(path)
    torch.save(model.state_dict(), io.BytesIO())
    save_file(model.state_dict(), HERE / "model.safetensors")
    load_file(HERE / "model.safetensors")
    with safe_open(HERE / "model.safetensors", framework="pt") as file:
        assert isinstance(file, safe_open)
        for name in file.keys():  # noqa: SIM118 - it is no dictionary
            file.get_tensor(name)


def save_and_load_together(model):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import async_save

    state = model.state_dict()
    dcp.save(state, checkpoint_id=HERE / "together")
    dcp.load(state, checkpoint_id=HERE / "together")
    async_save(state, checkpoint_id=HERE / "behind").result()


def use_remote_files():
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/file", bytes(1000))
    memory.cat_file("/file")
    memory.cat_ranges(["/file", "/file"], [0, 100], [50, 150])
    with fsspec.open("memory://file", "rb") as file:
        file.read(10)
    with fsspec.open(f"file://{HERE}/0.bin", "rb") as file:
        file.read(10)


def train_as(rank):
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{HERE}/meeting", rank=rank, world_size=2)
    model = torch.nn.Linear(1000, 1)
    train_here(model)
    train_with_workers(model)
    if rank == 0:
        list(DataLoader(Lines(), batch_size=50))
        list(DataLoader(Computed(), batch_size=2))
        list(DataLoader(Together(), batch_size=3))
        list(DataLoader(Files(), batch_size=4, num_workers=1, multiprocessing_context="spawn"))
        save_and_load(model)
        use_remote_files()
        time.sleep(0.2)
    dist.barrier()
    dist.all_reduce(torch.ones(2))
    save_and_load_together(model)
    dist.destroy_process_group()


def main():
    child = os.fork()
    if not child:
        train_as(rank=1)
        os._exit(0)
    train_as(rank=0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
