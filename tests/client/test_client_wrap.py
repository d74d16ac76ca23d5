"""Loaders over map-style datasets of torch, in real worker processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from collections import Counter, defaultdict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

from headrace.client.torch.mapstyle.pinning import nbytes_of, pinned
from headrace.core.errors import CallerError, ConfigError, DeadlineError
from headrace.torch import DatasetError, WrappedLoader, wrap
from headrace.trace.opening import open_trace
from waiting import eventually

LENGTH = 50


class Noisy(Dataset[Any]):
    """Samples that are random by each of the three generators that datasets use."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        drawn = (random.random(), float(np.random.rand()), float(torch.rand(())))
        return index, torch.tensor(drawn, dtype=torch.float64)


class Acting(Dataset[int]):
    """Does something on the way to each sample."""

    def __init__(self, act: Callable[[int], None]) -> None:
        self.act = act

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        self.act(index)
        return index


@pytest.fixture(autouse=True)
def no_process_left(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    yield
    assert multiprocessing.active_children() == []


def wrapped(dataset: Any, **options: Any) -> WrappedLoader:
    settings = {"batch_size": 8, "seed": 3, "workers": 2, "start_method": "fork", "trace": False}
    return wrap(dataset, **{**settings, **options})


def rows_of(batches: list[Any]) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for ids, drawn in batches
        for row in zip(ids.tolist(), drawn.tolist(), strict=True)
    ]


def epoch_of(dataset: Any, **options: Any) -> list[Any]:
    with wrapped(dataset, **options) as loader:
        return list(loader)


def test_batches_do_not_depend_on_workers_or_on_generators_of_the_process() -> None:
    alone = rows_of(epoch_of(Noisy(), workers=0))
    random.seed(77)
    torch.manual_seed(77)
    assert rows_of(epoch_of(Noisy(), workers=3)) == alone
    assert len({drawn[0] for _, drawn in alone}) == len(alone) == 48
    assert rows_of(epoch_of(Noisy(), seed=4)) != alone


def test_a_forkserver_makes_the_same_batches() -> None:
    """So it does where processes are spawned: both get the dataset pickled."""
    blocks = {"order": "block", "block": 4}
    there = epoch_of(Noisy(), start_method="forkserver", workers=1, **blocks)
    assert rows_of(there) == rows_of(epoch_of(Noisy(), workers=0, **blocks))


def test_without_workers_the_process_s_generators_are_left_as_they_are() -> None:
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = (random.random(), np.random.rand(), torch.rand(()).item())
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    epoch_of(Noisy(), workers=0)
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == expected


def test_epochs_differ_and_each_has_every_sample_once() -> None:
    with wrapped(Noisy(), batch_size=10) as loader:
        first, second = rows_of(list(loader)), rows_of(list(loader))
    assert sorted(index for index, _ in first) == sorted(index for index, _ in second)
    assert [index for index, _ in first] != [index for index, _ in second]
    assert dict(first)[7] != dict(second)[7]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_job_resumes_inside_an_epoch_on_other_ranks(workers: int) -> None:
    options = {"workers": workers, "tail": "short"}
    whole = rows_of(epoch_of(Noisy(), **options))
    with wrapped(Noisy(), rank=0, world=1, **options) as loader:
        batches = iter(loader)
        begun = rows_of([next(batches) for _ in range(3)])
        state = pickle.loads(pickle.dumps(loader.state_dict()))
    ranks = []
    for rank in range(2):
        with wrapped(Noisy(), rank=rank, world=2, **options) as loader:
            loader.load_state_dict(state)
            ranks.append(list(loader))
            assert len(ranks[-1]) == 4
            assert loader.state_dict()["step"] == 7
            assert loader.epoch == 1
    rest = [rows for pair in zip(*ranks, strict=True) for rows in pair]
    assert begun + rows_of(rest) == whole


def test_a_state_of_another_dataset_is_refused() -> None:
    with wrapped(Noisy()) as loader:
        state = loader.state_dict()
    with wrapped(Noisy(), version="2026-11") as other, pytest.raises(ConfigError, match="datasets"):
        other.load_state_dict(state)
    with wrapped(Acting(print)) as other, pytest.raises(ConfigError, match="datasets"):
        other.load_state_dict(state)


def test_a_straggler_holds_up_two_steps_at_most_and_keeps_its_place() -> None:
    order = [int(index) for batch in epoch_of(Acting(lambda _: None)) for index in batch]
    slow = order[11]
    context = multiprocessing.get_context("fork")
    made, meanwhile = context.Value("i", 0), context.Value("i", 0)

    def act(index: int) -> None:
        if index == slow and not meanwhile.value:
            deadline = time.monotonic() + 20
            while made.value < 35 and time.monotonic() < deadline:
                time.sleep(0.01)
            meanwhile.value = made.value
        with made.get_lock():
            made.value += 1

    with wrapped(Acting(act), prefetch_steps=5) as loader:
        assert [int(index) for batch in loader for index in batch] == order
    assert meanwhile.value == 35  # the first step, three samples of its own, three steps behind it


def test_an_exception_names_the_sample_and_shows_where_it_came_from() -> None:
    def act(index: int) -> None:
        if index == 17:
            raise ZeroDivisionError("seventeen")

    for workers in (0, 2):
        with wrapped(Acting(act), workers=workers) as loader:
            seen: list[int] = []
            with pytest.raises(DatasetError, match=r'17 .* on_corrupt="substitute"') as caught:
                for batch in loader:
                    seen += batch.tolist()
        assert caught.value.samples == (17,)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "in act\n" in str(caught.value)
        assert (
            seen == [i for b in epoch_of(Acting(lambda _: None)) for i in b.tolist()][: len(seen)]
        )


def test_an_exception_that_cannot_be_pickled_is_told_as_text() -> None:
    class Local(Exception):
        def __init__(self, index: int, more: int) -> None:
            super().__init__(index)

    def act(index: int) -> None:
        raise Local(index, 2)

    with wrapped(Acting(act)) as loader, pytest.raises(DatasetError, match="Local: ") as caught:
        next(iter(loader))
    assert caught.value.__cause__ is None


def test_what_cannot_be_made_is_replaced_by_the_same_sample_wherever_it_runs() -> None:
    def act(index: int) -> None:
        if index % 10 == 3:
            raise ValueError(f"no {index}")

    def run(**options: Any) -> tuple[list[int], list[tuple[int, int | None, str]]]:
        with wrapped(Acting(act), batch_size=10, **options) as loader:
            ids = [index for batch in loader for index in batch.tolist()]
            summary = loader.summary()
        replaced = [(one.sample, one.taken, one.reason) for one in summary.replaced]
        counts = summary.counts
        assert (counts.substituted + counts.dropped, counts.samples) == (5, len(ids))
        return ids, replaced

    ids, replaced = run(on_corrupt="substitute")
    assert (ids, replaced) == run(on_corrupt="substitute", workers=0)
    assert sorted(sample for sample, _, _ in replaced) == [3, 13, 23, 33, 43]
    assert all(taken in ids and taken % 10 != 3 for _, taken, _ in replaced)
    assert replaced[0][2] == f"ValueError: no {replaced[0][0]}"
    ids, replaced = run(on_corrupt="drop-from-batch")
    assert sorted(ids) == [index for index in range(LENGTH) if index % 10 != 3]
    assert {taken for _, taken, _ in replaced} == {None}


def test_where_every_sample_fails_the_first_exception_is_told() -> None:
    def act(index: int) -> None:
        raise ValueError(f"no {index}")

    first = epoch_of(Acting(lambda _: None))[0][0]
    with (
        wrapped(Acting(act), on_corrupt="substitute") as loader,
        pytest.raises(DatasetError, match=f"ValueError: no {first}"),
    ):
        next(iter(loader))


def test_a_worker_that_is_killed_is_started_again_and_the_sample_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def act(index: int) -> None:
        if index == 17 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    alone = [batch.tolist() for batch in epoch_of(Acting(lambda _: None))]
    (step,) = [number for number, batch in enumerate(alone) if 17 in batch]
    caplog.set_level("WARNING", logger="headrace.torch")
    with wrapped(Acting(act), prefetch_steps=1) as loader:
        assert [batch.tolist() for batch in loader] == alone
        assert loader.statistics().deaths == 1
    told = f"was killed by SIGKILL while it made sample 17; another one makes step {step} anew"
    assert told in caplog.text


def test_a_sample_that_kills_every_worker_ends_the_loop() -> None:
    def act(index: int) -> None:
        if index == 17:
            os._exit(9)

    with (
        wrapped(Acting(act)) as loader,
        pytest.raises(DatasetError, match="exit code 9 while it made sample 17") as caught,
    ):
        list(loader)
    assert caught.value.samples == (17,)


def test_a_worker_that_is_killed_while_idle_costs_nothing() -> None:
    with wrapped(Acting(lambda _: None), prefetch_steps=1) as loader:
        batches = iter(loader)
        ids = next(batches).tolist()
        for child in multiprocessing.active_children():
            child.kill()
            child.join()
        ids += [index for batch in batches for index in batch.tolist()]
    assert ids == [i for batch in epoch_of(Acting(lambda _: None)) for i in batch.tolist()]


def test_a_sample_that_hangs_ends_the_wait_and_is_named() -> None:
    def act(index: int) -> None:
        if index == 17:
            time.sleep(60)

    begin = time.monotonic()
    with (
        wrapped(Acting(act), timeout_s=0.3) as loader,
        pytest.raises(DeadlineError, match=r"within 0.3 s; workers are at samples \[17"),
    ):
        list(loader)
    assert time.monotonic() - begin < 10


def test_shards_of_any_size_can_be_asked_for_while_a_worker_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.client.torch.mapstyle.recipe.seed_generators", lambda _: None)
    samples = 150_000  # a list of a third of their indices is more than a pipe holds
    with wrapped(
        range(samples), batch_size=samples // 3, workers=1, collate_fn=bytes_of, timeout_s=20
    ) as loader:
        assert [len(batch) for batch in loader] == [8 * samples // 3] * 3


def bytes_of(items: list[int]) -> bytes:
    time.sleep(0.3)  # nobody receives all that time
    return bytes(8 * len(items))  # more than a pipe holds as well


class Awkward:
    """Part of a batch that does what it is told when it is packed up, or unpacked."""

    def __init__(self, act: Callable[[], Any], where: str) -> None:
        self.act = act
        self.where = where

    def __reduce__(self) -> Any:
        return (self.act, ()) if self.where == "here" else self.act()


def too_many_files() -> Any:
    raise OSError(24, "Too many open files")


def no_such_class() -> Any:
    raise ValueError("no such class here")


@pytest.mark.parametrize(
    ("awkward", "told"),
    [
        (Awkward(too_many_files, "there"), "cannot be sent to the training process.*Too many open"),
        (
            Awkward(no_such_class, "here"),
            "cannot be received from its worker.*no such class here.*`ulimit -n`",
        ),
        (Awkward(too_many_files, "here"), "cannot be received .*Too many open files"),
    ],
    ids=["sending", "unpacking", "receiving"],
)
def test_a_batch_that_does_not_get_through_is_told_at_once(
    awkward: Awkward, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.torch.mapstyle.process.LEAVE_S", 0.1)
    with (
        wrapped(
            Acting(lambda _: None),
            order="sequential",
            collate_fn=lambda items: awkward if 17 in items else items,
            timeout_s=30,
        ) as loader,
        pytest.raises(DatasetError, match=f"(?s){told}") as caught,
    ):
        list(loader)
    assert caught.value.samples == tuple(range(16, 24))


def test_workers_of_a_process_that_was_killed_end_though_nobody_takes_what_they_send() -> None:
    ours, theirs = multiprocessing.Pipe()

    def train() -> None:
        batches = iter(wrapped(range(10**6), collate_fn=lambda _: bytes(1 << 20)))
        next(batches)
        theirs.send([child.pid for child in multiprocessing.active_children()])
        for _ in batches:
            pass

    trainer = multiprocessing.get_context("fork").Process(target=train)
    trainer.start()
    pids = ours.recv()
    os.kill(trainer.pid, signal.SIGSTOP)  # type: ignore[arg-type]
    time.sleep(0.2)  # each has made a batch by then, which is more than a pipe holds
    trainer.kill()
    trainer.join()
    try:
        eventually(lambda: not any(map(psutil.pid_exists, pids)))
    finally:
        for pid in filter(psutil.pid_exists, pids):
            os.kill(pid, signal.SIGKILL)


def test_messages_list_a_few_samples_of_many() -> None:
    def fail(_: list[int]) -> Any:
        raise ValueError("no batch")

    with (
        wrapped(range(1000), workers=0, batch_size=1000, collate_fn=fail) as loader,
        pytest.raises(DatasetError, match=r"… 1000 in all\] cannot be collated") as caught,
    ):
        list(loader)
    assert len(str(caught.value)) < 2000
    assert len(caught.value.samples) == 1000


def test_a_loop_that_was_left_does_not_disturb_the_next() -> None:
    with wrapped(Noisy()) as loader:
        left = iter(loader)
        next(left)
        again = rows_of(list(loader))
        with pytest.raises(CallerError, match="this loop is over"):
            next(left)
        loader.set_epoch(1)
        assert rows_of(list(loader)) == again


def test_steps_are_recorded(tmp_path: Path) -> None:
    with wrapped(Noisy(), trace=tmp_path) as loader:
        list(loader)
    batches = open_trace([tmp_path]).batches()
    kinds = [row["kind"] for batch in batches for row in batch.to_pylist()]
    assert kinds.count("step") == 6


def test_a_collate_function_decides_what_a_batch_is() -> None:
    def collate(items: list[Any]) -> dict[str, Any]:
        return {"ids": [index for index, _ in items], "worker": get_worker_info().id}

    batches = epoch_of(Noisy(), collate_fn=collate)
    assert len(batches[0]["ids"]) == 8
    assert {batch["worker"] for batch in batches} <= {0, 1}

    def fail(items: list[Any]) -> Any:
        raise ValueError("no batch")

    with (
        wrapped(Noisy(), collate_fn=fail) as loader,
        pytest.raises(DatasetError, match="cannot be collated") as caught,
    ):
        next(iter(loader))
    assert len(caught.value.samples) == 8
    with (
        wrapped(Noisy(), collate_fn=lambda items: threading.Lock()) as loader,
        pytest.raises(DatasetError, match="cannot be sent to the training process"),
    ):
        next(iter(loader))


def test_workers_begin_with_the_function_that_was_given() -> None:
    def begin(number: int) -> None:
        get_worker_info().dataset.act = lambda index: os.environ.__setitem__("NUMBER", str(number))

    with wrapped(Acting(print), worker_init_fn=begin) as loader:
        assert len(list(loader)) == 6

    def fail(number: int) -> None:
        raise OSError("no database")

    with (
        wrapped(Acting(print), worker_init_fn=fail) as loader,
        pytest.raises(DatasetError, match=r"worker_init_fn\(\d\) failed"),
    ):
        next(iter(loader))


def test_a_rank_without_samples_of_a_step_gets_none() -> None:
    batches = epoch_of(Noisy(), tail="short", rank=2, world=3, batch_size=48)
    assert [None if batch is None else len(batch[0]) for batch in batches] == [16, None]


def test_rank_and_world_come_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    whole = [batch.tolist() for batch in epoch_of(Acting(lambda _: None), rank=0, world=1)]
    assert [batch.tolist() for batch in epoch_of(Acting(lambda _: None))] == [
        batch[4:] for batch in whole
    ]


def test_batches_are_pinned_where_there_is_a_cuda_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 100)
    ids = [index for batch in epoch_of(Acting(lambda _: None)) for index in batch.tolist()]
    assert min(ids) >= 100


def test_a_worker_that_could_not_be_started_is_started_by_the_next_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fork() -> int:
        if len(multiprocessing.active_children()) == 1 and not failed:
            failed.append(True)
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return forked()

    failed, forked = [], os.fork
    monkeypatch.setattr(os, "fork", fork)
    with wrapped(Acting(lambda _: None)) as loader:
        with pytest.raises(BlockingIOError):
            iter(loader)
        assert len(list(loader)) == LENGTH // 8
        assert len(multiprocessing.active_children()) == 2


def test_what_cannot_be_sent_to_a_worker_is_explained() -> None:
    with (
        wrapped(Acting(lambda _: None), start_method="forkserver") as loader,
        pytest.raises(ConfigError, match="lambdas and local classes"),
    ):
        iter(loader)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"agents": ["http://storage-1:7411"]}, "its code cannot leave this host"),
        ({"pipeline": None}, "headrace.torch.Loader takes it"),
        ({"num_workers": 4}, "write workers="),
        ({"sampler": None}, "pure function of seed and step"),
        ({"batchsize": 4}, "did you mean 'batch_size'"),
        ({"workers": -1}, "0 or more"),
        ({"start_method": "thread"}, "fork or spawn or forkserver"),
    ],
)
def test_options_that_mean_nothing_here_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        wrapped(Noisy(), **options)


def test_a_dataset_that_cannot_be_ordered_is_refused() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    class Endless(Dataset[int]):
        def __getitem__(self, index: int) -> int:
            return index

    for dataset, told in [
        (Stream(), "Stream is not map-style"),
        (Endless(), "no __len__"),
        (TensorDataset(torch.ones(0)), "is empty"),
    ]:
        with pytest.raises(ConfigError, match=told):
            wrapped(dataset)


def test_it_says_what_it_cannot_do() -> None:
    with wrapped(Noisy()) as loader:
        assert "agents and storage hosts prepare nothing" in loader.explain()
        with pytest.raises(CallerError, match="cannot be pickled"):
            pickle.dumps(loader)
    with pytest.raises(CallerError, match="closed"):
        iter(loader)


Pair = namedtuple("Pair", "left right")


def test_batches_are_searched_for_tensors_to_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)
    zero = torch.zeros(2)
    found = pinned(
        defaultdict(list, {"a": [zero, "text"], "b": Pair(zero, (zero, None)), "c": Counter("aab")})
    )
    assert found["none yet"] == [] and found["c"] == Counter("aab")
    assert found["a"][1] == "text"
    assert isinstance(found["b"], Pair)
    for tensor in (found["a"][0], found["b"].left, found["b"].right[0]):
        assert tensor.tolist() == [1, 1]
    assert nbytes_of({"a": [zero, "text"], "b": Pair(zero, (np.zeros(3), None))}) == 8 + 4 + 8 + 24
