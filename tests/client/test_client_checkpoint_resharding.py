"""A training state of real FSDP2 comes back bit by bit, on any world size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # what FSDP would import in each rank anew
import torch.distributed.checkpoint as dcp
from checkpoint_ranks import run_ranks
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.sharing import ShareLimits
from headrace.torch import CheckpointReader, CheckpointWriter

WORLD = 4


def training(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model and its optimizer after a step, sharded over all ranks."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Embedding(130, 17),
        torch.nn.Linear(17, 33),
        torch.nn.LayerNorm(33),
        torch.nn.Linear(33, 6, bias=False),
    )
    model[3].to(torch.bfloat16)
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 * (1 + seed))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": 7}


def whole(state: Any) -> Any:
    """Every tensor with the parts of all ranks, as its bytes."""
    if isinstance(state, dict):
        return {key: whole(value) for key, value in state.items()}
    if isinstance(state, DTensor):
        state = state.full_tensor()
    if isinstance(state, torch.Tensor):
        return state.dtype, tuple(state.shape), bytes(state.reshape(-1).view(torch.uint8).tolist())
    return state


def whole_state(seed: int) -> Any:
    return whole(state_of(*training(seed)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A checkpoint of four ranks, and what it holds."""
    folder = tmp_path_factory.mktemp("fsdp")

    def save(_: int) -> Any:
        state = state_of(*training(seed=1))
        dcp.save(state, storage_writer=CheckpointWriter(folder / "step-7", streams=2))
        return whole(state)

    states = run_ranks(WORLD, save, folder)
    assert all(state == states[0] for state in states)
    return folder / "step-7", states[0]


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_a_state_is_loaded_on_any_world_size(
    saved: tuple[Path, Any], tmp_path: Path, world: int
) -> None:
    folder, wanted = saved
    limits = FetchLimits(request_bytes=2_000, gap_bytes=100)  # pieces are longer
    sharing = ShareLimits(folder=str(tmp_path), bundle_bytes=3_000)

    def load(_: int) -> Any:
        model, optimizer = training(seed=2)
        state = state_of(model, optimizer)
        assert whole(state) != wanted
        reader = CheckpointReader(folder, limits=limits, sharing=sharing)
        dcp.load(state, storage_reader=reader)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        return whole(state_of(model, optimizer)) == wanted and state["step"] == 7

    assert run_ranks(world, load, tmp_path) == [True] * world


def test_torch_s_own_reader_loads_it_as_well(saved: tuple[Path, Any], tmp_path: Path) -> None:
    folder, wanted = saved

    def load(_: int) -> Any:
        state = state_of(*training(seed=2))
        dcp.load(state, checkpoint_id=folder)
        return whole(state) == wanted

    assert run_ranks(2, load, tmp_path) == [True] * 2
