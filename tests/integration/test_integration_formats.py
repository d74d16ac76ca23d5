"""Batches of formats with writers of their own are the same with an agent and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dataset.written_formats import OPTIONS, write_all_formats
from headrace import Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.client.batch import Batch
from headrace.dataset.build import build_index
from headrace.storage.local import LocalStorage
from integration.agents import wait_until_proven

PIPELINE = Pipeline(
    [
        ops.DecodeImage(),
        ops.DecodeVideo(frames=2, sampling="random"),
        ops.RandomResizedCrop(8, fields=("image", "video")),
        ops.Segments(),
    ]
)


def batches(dataset: Path, agent: LocalAgent | None = None) -> tuple[list[Batch], int]:
    """Return one epoch, and how many samples the agent prepared."""
    options: dict[str, Any] = {"pipeline": PIPELINE, "batch_size": 8, "seed": 1, "tail": "short"}
    if agent is not None:
        options |= {"agents": [agent.address], "token": agent.token, "patience_s": 20.0}
    with Loader(dataset, **options) as loader:
        if agent is not None:
            wait_until_proven(agent)
        epoch = list(loader)
        return epoch, loader.summary().counts.tensor


def require_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, list):
        for mine, others in zip(one, other, strict=True):
            require_equal(mine, others)
    else:
        np.testing.assert_array_equal(one, other, strict=isinstance(one, np.ndarray))


def test_an_agent_makes_what_the_trainer_makes(tmp_path: Path) -> None:
    storage = LocalStorage(write_all_formats(tmp_path))
    build_index(storage, options=OPTIONS).save(storage)
    expected, _ = batches(tmp_path)
    with LocalAgent([tmp_path], options=["--cpu-threshold", "1", "--workers", "1"]) as agent:
        made, prepared = batches(tmp_path, agent)
    assert prepared > 0
    for one, other in zip(expected, made, strict=True):
        assert list(one) == list(other)
        for name in one:
            require_equal(one[name], other[name])
            require_equal(one.rows(name), other.rows(name))
