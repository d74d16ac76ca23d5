"""The loader as PyTorch scripts use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import headrace.torch
from headrace import Pipeline
from headrace.client.torch.batch import tensors
from headrace.core.errors import ConfigError
from headrace.torch import Loader, TensorBatch


def test_the_public_names_are_pinned() -> None:
    assert sorted(headrace.torch.__all__) == [
        "CheckpointReader", "CheckpointWriter", "DatasetError", "Loader", "TensorBatch",
        "WrappedLoader", "wrap",
    ]  # fmt: skip
    assert all(getattr(headrace.torch, name) is not None for name in headrace.torch.__all__)
    with pytest.raises(AttributeError, match="it has CheckpointReader"):
        _ = headrace.torch.Reader


@pytest.fixture
def loader(dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Loader:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return Loader(dataset, pipeline=pipeline, batch_size=6, seed=3, workers=2)


def test_batches_are_tensors_that_a_model_takes(loader: Loader) -> None:
    with loader:
        batches = list(loader)
    assert len(batches) == len(loader) == 4
    batch = batches[0]
    assert isinstance(batch, TensorBatch)
    assert batch["image"].dtype == torch.float32
    assert torch.nn.Conv2d(3, 4, 3)(batch["image"]).shape[:2] == (len(batch["image"]), 4)
    assert batch["label"].dtype == torch.int64
    assert batch.rows("label").tolist() == list(range(batch.size))
    moved = batch.to("cpu")
    assert torch.equal(moved["image"], batch["image"])
    assert (moved.step, moved.epoch) == (batch.step, batch.epoch)


def test_tensors_share_the_batch_s_memory() -> None:
    array = np.zeros((2, 3), np.float32)
    tensor = tensors(array)
    array[0, 0] = 7
    assert isinstance(tensor, torch.Tensor)
    assert tensor[0, 0] == 7
    mixed = tensors(["text", array])
    assert mixed[0] == "text"
    assert isinstance(mixed[1], torch.Tensor)


def test_tensors_in_pytorch_s_memory_are_parts_of_its_own_storage() -> None:
    """PyTorch looks after pinned memory by its storage: while a GPU reads it, no one may write."""
    origin = torch.zeros(800, dtype=torch.uint8)
    array = origin.numpy()[:480].view(np.float32).reshape(4, 10, 3)
    for part in (array, array[1:3], array[2].T, array[3, 1:2, ::2]):
        tensor = tensors(part)
        assert isinstance(tensor, torch.Tensor)
        assert tensor.untyped_storage()._cdata == origin.untyped_storage()._cdata
        part[:] += 1
        assert np.array_equal(tensor.numpy(), part)


def test_batches_lie_in_the_storage_that_pytorch_gave(dataset: Path, pipeline: Pipeline) -> None:
    given: list[torch.Tensor] = []

    def allocate(nbytes: int) -> np.ndarray:
        given.append(torch.empty(nbytes, dtype=torch.uint8))
        return given[-1].numpy()

    with Loader(dataset, pipeline=pipeline, batch_size=22, allocate=allocate) as loader:
        for batch in loader:
            storage = batch["image"].untyped_storage()
            assert storage._cdata in {one.untyped_storage()._cdata for one in given}


def test_a_state_resumes_at_the_next_batch(dataset: Path, pipeline: Pipeline) -> None:
    options = {"pipeline": pipeline, "batch_size": 6, "seed": 3}
    with Loader(dataset, **options) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        expected = [batch["sample"].tolist() for batch in batches]
    with Loader(dataset, **options) as other:
        other.load_state_dict(state)
        assert [batch["sample"].tolist() for batch in other] == expected


def test_rank_and_world_come_from_torchrun(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with Loader(dataset, pipeline=pipeline, batch_size=6) as loader:
        assert (loader.config.rank, loader.config.world) == (1, 3)
        assert next(iter(loader)).size == 2
    with Loader(dataset, pipeline=pipeline, batch_size=6, rank=0, world=1) as loader:
        assert loader.config.world == 1


def test_a_contradicting_environment_is_an_error(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ConfigError, match="torchrun"):
        Loader(dataset, batch_size=6)


def test_rank_and_world_come_from_the_process_group(
    dataset: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with Loader(dataset, pipeline=pipeline, batch_size=6) as loader:
        assert (loader.config.rank, loader.config.world) == (0, 2)


def test_headrace_itself_does_not_import_torch() -> None:
    code = "import headrace, sys; headrace.Loader; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
