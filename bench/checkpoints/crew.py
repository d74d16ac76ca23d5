"""Ranks as processes on emulated hosts: ``python -m bench.checkpoints.crew``.

One process imports torch, then forks the ranks of each order it reads, so that dozens start
within a second on two CPUs. A rank enters its host's control group and network, joins a gloo
group over that network, and does its work. Orders and answers are JSON lines; the crew ends
with its input, and its ranks with it or with the bed.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import fsspec.core
import msgspec
import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader
from torch.distributed.device_mesh import DeviceMesh

import bench.checkpoints.baseline  # noqa: F401 - what hdfs:// opens for fsspec
import headrace.safetensors
import headrace.storage.hdfs
import headrace.torch
from bench.checkpoints.kernel import die_with_parent, enter, take_own_memory
from bench.checkpoints.model import Model
from bench.checkpoints.orders import (
    Done,
    Load,
    LoadTensors,
    Order,
    RankDone,
    Reader,
    Save,
    SaveTensors,
    Work,
)
from bench.checkpoints.state import Pool, Shards

POOL_BYTES = 64 << 20
_RENDEZVOUS_S = 60.0


def main() -> None:
    """Carry out orders until there are no more."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pool = Pool(POOL_BYTES)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    _import_all(pool)
    gc.freeze()  # what ranks share stays shared
    for line in sys.stdin.buffer:
        done = _carry_out(msgspec.json.decode(line, type=Order), pool)
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
        sys.stdout.buffer.flush()
    os._exit(0)  # without what torch's compilers have to say at the end


def _import_all(pool: Pool) -> None:
    """Import what saving and loading import when they come to it, else each rank would anew.

    headrace's part is rehearsed by a child, which tells what it is: headrace leaves threads
    running, and those are not to be forked.
    """
    _rehearse(pool, "fsspec")
    names, naming = os.pipe()
    pid = os.fork()
    if not pid:
        before = set(sys.modules)
        _rehearse(pool, "headrace")
        os.write(naming, msgspec.json.encode(sorted(set(sys.modules) - before)))
        os._exit(0)
    os.close(naming)
    with os.fdopen(names, "rb") as told:
        found: list[str] = msgspec.json.decode(told.read())
    os.waitpid(pid, 0)
    for name in found:
        with suppress(ImportError):  # made while running, not imported
            importlib.import_module(name)


def _rehearse(pool: Pool, reader: Reader) -> None:
    """Save and load once alone."""
    with tempfile.TemporaryDirectory() as folder:
        model = Model(layers=1, width=1, rows=1, vocabulary=1)
        save = Save(folder=folder)
        alone = Order(
            model=model,
            places=(None,),
            mesh=(1,),
            rendezvous="127.0.0.1:0",
            work=save,
        )
        shards = _join(alone, 0, pool)
        _save(save, 0, shards)
        _load(Load(url=folder, reader=reader), 0, shards)
    dist.destroy_process_group()


@cache
def _take_memory_once() -> None:
    """Have memory for ranks on hosts; those on none need no right to mount any."""
    take_own_memory()


def _carry_out(order: Order, pool: Pool) -> Done:
    if any(order.places):
        _take_memory_once()
    deadline = time.monotonic() + order.longest_s
    ranks = {rank: _fork(order, rank, pool) for rank in range(len(order.places))}
    try:
        return Done(ranks=tuple(_answer(rank, *child, deadline) for rank, child in ranks.items()))
    finally:
        for pid, answers in ranks.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(answers)


def _fork(order: Order, rank: int, pool: Pool) -> tuple[int, int]:
    """Start a rank; return its process and where it answers."""
    answers, answering = os.pipe()
    if pid := os.fork():
        os.close(answering)
        return pid, answers
    try:
        os.write(answering, msgspec.json.encode(_rank(order, rank, pool)))
    finally:
        os._exit(0)


def _answer(rank: int, _: int, answers: int, deadline: float) -> RankDone:
    told = b""
    while select.select([answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (more := os.read(answers, 1 << 16)):
            break
        told += more
    else:
        return RankDone(rank=rank, error="it did not end in time")
    try:
        return msgspec.json.decode(told, type=RankDone)
    except msgspec.DecodeError:
        return RankDone(rank=rank, error="it ended without a word")


def _rank(order: Order, rank: int, pool: Pool) -> RankDone:
    try:
        die_with_parent()
        place = order.places[rank]
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0" if place else "lo"
        if place is not None:
            enter(place)
        shards = _join(order, rank, pool)
        return _work(order.work, rank, shards)
    except BaseException:  # noqa: BLE001 - hdfs-native panics are no Exception
        return RankDone(rank=rank, error=traceback.format_exc()[-2000:])


def _join(order: Order, rank: int, pool: Pool) -> Shards:
    """Meet the other ranks, and return this rank's part of the state."""
    host, port = order.rendezvous.rsplit(":", 1)
    world = len(order.places)
    limit = timedelta(seconds=_RENDEZVOUS_S)
    store = dist.TCPStore(host, int(port), world, is_master=rank == 0, timeout=limit)
    dist.init_process_group(
        "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=order.longest_s),
    )
    # no group of its own: sharding needs none, and connecting one takes longer than loading
    mesh = DeviceMesh("cpu", torch.arange(world).reshape(order.mesh), _init_backend=False)
    return Shards(order.model, mesh, pool, with_optimizer=_has_optimizer(order.work))


def _has_optimizer(work: Work) -> bool:
    return isinstance(work, Save) or (isinstance(work, Load) and work.with_optimizer)


def _work(work: Work, rank: int, shards: Shards) -> RankDone:
    match work:
        case Save():
            return _save(work, rank, shards)
        case Load():
            return _load(work, rank, shards)
        case SaveTensors():
            return _save_tensors(work, rank, shards)
        case LoadTensors():
            return _load_tensors(work, rank, shards)


def _save_tensors(work: SaveTensors, rank: int, shards: Shards) -> RankDone:
    begin_s, model = time.monotonic(), shards.whole_model()
    names = sorted(model)
    weight_map = {}
    for number in range(work.files):
        file = f"model-{number + 1:05}-of-{work.files:05}.safetensors"
        part = {name: model[name].clone() for name in names[number :: work.files]}
        safetensors.torch.save_file(part, Path(work.folder, file))
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": shards.nbytes}, "weight_map": weight_map}
    Path(work.folder, "model.safetensors.index.json").write_bytes(msgspec.json.encode(index))
    return RankDone(rank=rank, begin_s=begin_s, end_s=time.monotonic(), nbytes=shards.nbytes)


def _load_tensors(work: LoadTensors, rank: int, shards: Shards) -> RankDone:
    load = headrace.safetensors.load_file if work.reader == "headrace" else _load_by_fsspec
    begin_s, cpu_s = time.monotonic(), _cpu_s()
    model = load(work.url)
    end_s, cpu_s = time.monotonic(), _cpu_s() - cpu_s
    return RankDone(
        rank=rank,
        begin_s=begin_s,
        end_s=end_s,
        cpu_s=cpu_s,
        nbytes=shards.nbytes,
        unequal=tuple(shards.unequal({"model": model})),
    )


def _load_by_fsspec(url: str) -> dict[str, torch.Tensor]:
    """Load all files of a model at the same time, each read whole."""
    store, folder = fsspec.core.url_to_fs(url)
    files = [file for file in store.ls(folder, detail=False) if file.endswith(".safetensors")]
    with ThreadPoolExecutor(len(files)) as pool:
        parts = list(pool.map(lambda file: safetensors.torch.load(store.cat_file(file)), files))
    return {name: tensor for part in parts for name, tensor in part.items()}


def _save(work: Save, rank: int, shards: Shards) -> RankDone:
    state = shards.saved()
    dist.barrier()
    begin_s = time.monotonic()
    dcp.save(state, storage_writer=dcp.FileSystemWriter(work.folder, sync_files=False))
    return RankDone(rank=rank, begin_s=begin_s, end_s=time.monotonic(), nbytes=shards.nbytes)


def _load(work: Load, rank: int, shards: Shards) -> RankDone:
    state = shards.empty()
    dist.barrier()
    begin_s, cpu_s = time.monotonic(), _cpu_s()
    reader = _reader(work)
    dcp.load(state, storage_reader=reader)
    end_s, cpu_s = time.monotonic(), _cpu_s() - cpu_s
    unequal = shards.unequal(state)
    dist.barrier()  # a rank that leaves takes what it serves to others along
    return RankDone(
        rank=rank,
        begin_s=begin_s,
        end_s=end_s,
        cpu_s=cpu_s,
        nbytes=shards.nbytes,
        unequal=tuple(unequal),
        statistics=_statistics(reader),
    )


def _reader(work: Load) -> Any:
    if work.reader == "headrace":
        return headrace.torch.CheckpointReader(work.url, **work.options)
    return FsspecReader(work.url, **work.options)


def _statistics(reader: Any) -> dict[str, Any]:
    return msgspec.to_builtins(reader.statistics()) if hasattr(reader, "statistics") else {}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
