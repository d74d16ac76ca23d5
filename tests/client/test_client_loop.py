"""What a loop holds on to: its loader, and nothing that it handed over."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from headrace import Loader, Pipeline
from headrace.torch import wrap

Make = Callable[[], Any]


@pytest.fixture(params=["files", "wrapped"])
def make(request: pytest.FixtureRequest, dataset: Path, pipeline: Pipeline) -> Make:
    options: dict[str, Any] = {"batch_size": 6, "workers": 1, "trace": False}
    if request.param == "files":
        return lambda: Loader(dataset, pipeline=pipeline, **options)
    samples = TensorDataset(torch.arange(24.0))
    return lambda: wrap(samples, start_method="fork", rank=0, world=1, **options)


def test_a_loop_keeps_a_loader_alive_that_nobody_else_holds(make: Make) -> None:
    assert sum(1 for _ in iter(make())) == 4


def test_a_batch_that_was_handed_over_is_its_receiver_s_alone(make: Make) -> None:
    with make() as loader:
        batches = iter(loader)
        batch = next(batches)
        gone = weakref.ref(batch["image"] if isinstance(loader, Loader) else batch[0])
        assert gone() is not None
        del batch
        assert gone() is None
