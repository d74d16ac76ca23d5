"""States of loaders: what they hold, what is refused, and that training goes on where it was."""

from __future__ import annotations

import copy
import json
import pickle
import tarfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from epochs import loading, rows

import headrace.torch
from headrace import Batch, Loader, Pipeline, ops
from headrace.core.errors import CallerError, ConfigError
from headrace.dataset.build import build_index
from headrace.storage.opening import open_storage

SIZES = Pipeline([ops.DecodeImage(), ops.RandomResizedCrop(8)])


@pytest.fixture(scope="module")
def state(dataset: Path) -> dict[str, Any]:
    with loading(dataset) as loader:
        return loader.state_dict()


# What a state is


def test_a_state_has_the_same_size_whatever_the_job_is(dataset: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.jsonl").write_text(json.dumps({"text": name}))
    large = {"batch_size": 5000, "epoch_samples": 10**12, "seed": 2**63, "order": "block"}
    with (
        loading(tmp_path / "a", batch_size=1, epoch_samples=1) as one,
        loading([tmp_path / n for n in ("a", "b", "c")], pipeline=SIZES, **large) as other,
    ):
        small, big = one.state_dict(), other.state_dict()
    big["step"] = 10**15
    assert big.keys() == small.keys()
    assert len(json.dumps(small)) < len(json.dumps(big)) < 450
    assert len(json.dumps(big)) - len(json.dumps(small)) < 80, "digits of numbers, and no more"


def test_a_state_is_that_of_the_batch_in_hand_however_far_was_read_ahead(dataset: Path) -> None:
    with loading(dataset, prefetch_steps=4) as loader:
        for batch in loader:
            while batch.step == 0 and loader.statistics().background.prefetch.ready_steps < 2:
                time.sleep(0.001)
            assert loader.state_dict()["step"] == batch.step + 1


@pytest.mark.parametrize("move", ["load", "set_epoch"])
def test_going_to_another_step_ends_the_loop_that_is_going_on(
    dataset: Path, state: dict[str, Any], move: str
) -> None:
    with loading(dataset) as loader:
        batches = iter(loader)
        next(batches)
        if move == "load":
            loader.load_state_dict({**state, "step": len(loader)})
        else:
            loader.set_epoch(1)
        with pytest.raises(CallerError, match="this loop is over"):
            next(batches)
        assert next(iter(loader)).step == len(loader)


# What is refused


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"version": 99}, "version 99 and this headrace reads 2"),
        ({"step": -1}, "damaged: its step is -1"),
        ({"step": 1 << 54}, "damaged: its step is"),
        ({"step": 2.0}, "damaged: its step is 2.0"),
        ({"step": True}, "damaged: its step is True"),
        ({"step": None}, "damaged: its step is None"),
        ({"pipeline": None}, "pipeline is None there"),
        ({"pipeline": "x" * 10_000}, "pipeline is 'xxx"),
    ],
)
def test_a_state_that_is_damaged_or_of_a_later_version_is_refused_and_changes_nothing(
    dataset: Path, state: dict[str, Any], damage: dict[str, Any], told: str
) -> None:
    with loading(dataset) as loader:
        with pytest.raises(ConfigError, match=told) as refused:
            loader.load_state_dict({**state, "step": 2} | damage)
        assert len(str(refused.value)) < 400
        assert next(iter(loader)).step == 0


@pytest.mark.parametrize("damaged", [{}, None, [1, 2], b"garbage", {"model": "weights"}])
def test_what_is_no_state_is_refused(dataset: Path, damaged: Any) -> None:
    with loading(dataset) as loader, pytest.raises(ConfigError, match="what state_dict"):
        loader.load_state_dict(damaged)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch_size": 5}, ["batch_size is 6 there and 5 here"]),
        ({"order": "block", "tail": "pad"}, ["order is 'shuffle' there", "tail is 'drop' there"]),
        ({"epoch_samples": 12}, ["epoch_samples is None there and 12 here"]),
        ({"pipeline": SIZES}, ["pipeline is "]),
        ({"on_corrupt": "raise"}, ["on_corrupt is 'substitute' there and 'raise' here"]),
    ],
)
def test_a_state_of_another_job_says_all_that_differs(
    dataset: Path, state: dict[str, Any], options: dict[str, Any], told: list[str]
) -> None:
    with (
        loading(dataset, **options) as loader,
        pytest.raises(ConfigError, match="the state is of another job") as refused,
    ):
        loader.load_state_dict(state)
    assert all(part in str(refused.value) for part in told)
    assert str(refused.value).count(" there and ") == len(told)


def test_a_state_of_other_datasets_or_weights_says_so(dataset: Path) -> None:
    halves = [dataset / "cat", dataset / "dog"]
    with loading(halves) as loader:
        state = loader.state_dict()
    with loading(halves[::-1]) as loader, pytest.raises(ConfigError, match="datasets is"):
        loader.load_state_dict(state)
    weighted = {str(half): 1.0 + number for number, half in enumerate(halves)}
    with loading(weighted) as loader, pytest.raises(ConfigError, match="job: weights is"):
        loader.load_state_dict(state)


# Training goes on


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> dict[str, Path]:
    """The pictures of each class in a tar file of its own, with an index beside it."""
    found = {}
    for name in ("cat", "dog"):
        found[name] = tmp_path_factory.mktemp(name)
        with tarfile.open(found[name] / "0.tar", "w") as tar:
            for picture in sorted((dataset / name).iterdir()):
                tar.add(picture, picture.name)
        storage = open_storage(str(found[name]))
        build_index(storage).save(storage)
    return found


@pytest.mark.parametrize(
    ("worlds", "weights", "options"),
    [
        ((1, 3, 2), (1.0, 1.0), {"batch_size": 7, "order": "shuffle", "tail": "short"}),
        ((3, 1), (3.0, 1.0), {"batch_size": 5, "order": "block", "tail": "pad"}),
        ((8, 2), (3.0, 1.0), {"batch_size": 5, "order": "shuffle", "epoch_samples": 17}),
        ((2, 3), (1.0, 1.0), {"batch_size": 4, "order": "sequential", "epoch_samples": 31}),
    ],
)
def test_ranks_that_come_and_go_put_the_same_global_batches_together(
    pictures: dict[str, Path],
    worlds: tuple[int, ...],
    weights: tuple[float, float],
    options: dict[str, Any],
) -> None:
    mixture = {str(pictures["cat"]): weights[0], str(pictures["dog"]): weights[1]}
    options = {**options, "pipeline": SIZES, "block": 3, "mix": 2, "workers": 1}
    with loading(mixture, **options) as loader:
        whole = [rows(batch) for _ in range(2) for batch in loader]
    seen: list[list[str]] = []
    state = None
    for world in worlds:
        last = world == worlds[-1]
        steps = len(whole) - len(seen) if last else 2
        parts, state = ranks_of_a_world(mixture, options, world, state, steps)
        seen += parts
    assert seen == whole


def ranks_of_a_world(
    mixture: dict[str, float], options: dict[str, Any], world: int, state: Any, steps: int
) -> tuple[list[list[str]], Any]:
    """Return global batches as all ranks of a world see them together, and a state after them."""
    seen: list[list[str]] = [[] for _ in range(steps)]
    for rank in range(world):
        with loading(mixture, **options, rank=rank, world=world) as loader:
            if state is not None:
                loader.load_state_dict(copy.deepcopy(state))
            for number, batch in enumerate(islice(endless(loader), steps)):
                seen[number] += rows(batch)
            after = loader.state_dict()
    return seen, after


def endless(loader: Loader) -> Iterator[Batch]:
    while True:
        yield from loader


def test_a_rank_without_a_sample_of_a_batch_keeps_step_with_the_others(dataset: Path) -> None:
    options = {"batch_size": 2, "epoch_samples": 4}
    with loading(dataset, rank=2, world=3, **options) as loader:
        assert [(batch.step, batch.size) for batch in loader] == [(0, 0), (1, 0)]


# torch


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_loader_is_a_part_of_a_distributed_checkpoint(dataset: Path, tmp_path: Path) -> None:
    with headrace.torch.Loader(dataset, batch_size=6, seed=3) as loader:
        batches = iter(loader)
        next(batches)
        kept = {"model": {"weight": torch.ones(3)}, "loader": loader}
        dcp.save(kept, checkpoint_id=tmp_path / "step-1", no_dist=True)
        expected = [batch["sample"].tolist() for batch in batches]
    with headrace.torch.Loader(dataset, batch_size=6, seed=3, rank=0, world=2) as other:
        kept = {"model": {"weight": torch.zeros(3)}, "loader": other}
        dcp.load(kept, checkpoint_id=tmp_path / "step-1", no_dist=True)
        assert [batch["sample"].tolist() for batch in other] == [ids[:3] for ids in expected]
    assert kept["model"]["weight"].tolist() == [1, 1, 1]  # type: ignore[index]


def test_a_state_comes_through_torch_save_and_json(dataset: Path, tmp_path: Path) -> None:
    with loading(dataset) as loader:
        next(iter(loader))
        state = loader.state_dict()
        torch.save({"loader": state}, tmp_path / "checkpoint.pt")
        kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["loader"]
        for form in (kept, json.loads(json.dumps(state)), pickle.loads(pickle.dumps(state))):
            loader.load_state_dict(form)
            assert next(iter(loader)).step == 1
