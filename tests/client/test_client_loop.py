"""What a loop holds on to: its loader, and nothing that it handed over."""

from __future__ import annotations

import os
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


def test_a_forked_process_that_drops_its_copy_of_a_loader_ends_nothing(make: Make) -> None:
    with make() as loader:
        batches = iter(loader)
        next(batches)
        if (child := os.fork()) == 0:
            try:
                loader.close()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert sum(1 for _ in batches) == 3
        if not isinstance(loader, Loader):
            assert loader.statistics().deaths == 0
