"""Hooks on real libraries, in this process: each is put on for one test and taken off after it."""

from __future__ import annotations

import importlib
import io
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace.tracing.probe.checkpoints import Checkpoints
from headrace.tracing.probe.imports import after_import
from headrace.tracing.probe.optimizers import Optimizers
from headrace.tracing.probe.ranks import Ranks
from headrace.tracing.probe.remote import RemoteFiles
from headrace.tracing.probe.tally import Tally
from headrace.tracing.probe.tracer import (
    PARENT_VARIABLE,
    Standing,
    Tracer,
    Watcher,
    inherited_standing,
)


class Records:
    """Stands where the spool is."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def seen(self, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(event.get(name) for name in columns) for event in self.events]


@pytest.fixture(autouse=True)
def _no_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test tell the next what it is at."""
    monkeypatch.setenv(PARENT_VARIABLE, "")
    monkeypatch.delenv(PARENT_VARIABLE)


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def tracer(records: Records) -> Tracer:
    return Tracer(records)  # type: ignore[arg-type]


@pytest.fixture
def spec(tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``fsspec.spec``, watched."""
    spec = importlib.import_module("fsspec.spec")
    making = type(spec.AbstractFileSystem)
    monkeypatch.setattr(making, "__call__", making.__call__)
    monkeypatch.setattr(spec.AbstractBufferedFile, "__init__", spec.AbstractBufferedFile.__init__)
    RemoteFiles(tracer).watch(spec)
    return spec


@pytest.fixture
def store(spec: Any) -> Any:
    """A store of one file, ``/file`` of 1,000 bytes, whose files fsspec buffers."""

    class File(spec.AbstractBufferedFile):  # type: ignore[misc, name-defined]
        def _fetch_range(self, start: int, end: int) -> bytes:
            return bytes(end - start)

    class Store(spec.AbstractFileSystem):  # type: ignore[misc, name-defined]
        protocol = "store"

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": 1000, "type": "file"}

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return File(self, path, mode, block_size=100, cache_type="readahead", size=1000)

    return Store(skip_instance_cache=True)


def test_buffered_files_are_watched_where_they_ask_storage(store: Any, records: Records) -> None:
    with store.open("/file") as file:
        for _ in range(10):
            file.read(10)
        file.seek(500)
        file.read(10)
    columns = ("kind", "name", "file", "offset", "bytes")
    assert records.seen(*columns) == [
        ("metadata", "open", "store:///file", None, None),
        ("request", "read", "store:///file", 0, 110),
        ("request", "read", "store:///file", 500, 110),
    ]


def test_a_call_that_is_made_of_others_is_one_request(store: Any, records: Records) -> None:
    assert len(store.cat_file("/file")) == 1000
    assert records.seen("name", "bytes", "is_write") == [("cat_file", 1000, False)]
    records.events.clear()
    assert [len(part) for part in store.cat_ranges(["/file"] * 3, [0, 5, 9], [5, 9, 10])] == [
        5,
        4,
        1,
    ]
    assert records.seen("name", "bytes", "count") == [("cat_ranges", 10, 3)]


def test_what_is_written_whole_is_told_with_its_size(spec: Any, records: Records) -> None:
    memory = importlib.import_module("fsspec.implementations.memory").MemoryFileSystem(written=1)
    memory.pipe("/one", b"12345")
    memory.pipe({"/two": b"12", "/three": b"345"})
    memory.rm(["/one", "/two", "/three"])
    columns = ("name", "file", "bytes", "is_write", "count")
    assert [event for event in records.seen(*columns) if event[0] == "pipe"] == [
        ("pipe", "memory:///one", 5, True, None),
        ("pipe", None, 5, True, 2),
    ]


def test_lightning_saves_a_checkpoint_once_though_by_way_of_memory(
    tracer: Tracer, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialization = importlib.import_module("torch.serialization")
    for name in ("load", "save"):
        monkeypatch.setattr(serialization, name, getattr(serialization, name))

    def atomic_save(checkpoint: Any, filepath: Path) -> None:  # as Lightning's, which loads slowly
        memory = io.BytesIO()
        serialization.save(checkpoint, memory)
        filepath.write_bytes(memory.getvalue())

    lightning = ModuleType("lightning.fabric.utilities.cloud_io")
    lightning._atomic_save = atomic_save  # type: ignore[attr-defined]
    checkpoints = Checkpoints(tracer)
    checkpoints.watch_serialization(serialization)
    checkpoints.watch_lightning(lightning)
    path = tmp_path / "model.ckpt"
    lightning._atomic_save({"state": 1}, path)
    columns = ("kind", "name", "file", "bytes")
    assert records.seen(*columns) == [
        ("checkpoint_save", "lightning.save", str(path), path.stat().st_size)
    ]


def test_questions_are_told_and_what_fails_is_not(store: Any, records: Records) -> None:
    store.info("/file")
    with pytest.raises(NotImplementedError):
        store.ls("/")
    assert records.seen("kind", "name", "file") == [("metadata", "info", "store:///file")]


def test_a_load_adds_up_what_it_asked_a_store_for(store: Any, tracer: Tracer) -> None:
    tally = tracer.tallies.current = Tally()
    store.info("/file")
    store.cat_file("/file")
    assert (tally.opens, tally.reads, tally.fetched_bytes, tally.read_bytes) == (1, 1, 1000, 0)
    assert tally.file == "store:///file"


def test_file_systems_are_made_once_and_watched_once(spec: Any, records: Records) -> None:
    memory = importlib.import_module("fsspec.implementations.memory").MemoryFileSystem
    first, second = memory(watched=1), memory(watched=1)
    assert first is second
    first.pipe_file("/watched", b"12345")
    with first.open("/watched", "rb") as file:
        assert file.read() == b"12345"
    with first.open("/watched", "r") as file:
        assert file.read() == "12345"
    first.rm("/watched")
    requests = [event for event in records.events if event["kind"] == "request"]
    assert [event["bytes"] for event in requests] == [5, 5, 5]


def test_steps_of_a_program_without_a_loader_are_those_of_its_first_optimizer(
    tracer: Tracer, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = importlib.import_module("torch")
    module = importlib.import_module("torch.optim.optimizer")
    monkeypatch.setattr(module, "_global_optimizer_post_hooks", OrderedDict())
    add = module.Optimizer.add_param_group  # loads torch's compiler first, which takes seconds
    monkeypatch.setattr(module.Optimizer, "add_param_group", add.__wrapped__)
    Optimizers(tracer).watch(module)

    class Still(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
        def step(self) -> None:
            """Change nothing."""

    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    first, second = (Still([weight], {}) for weight in weights)
    for _ in range(3):
        first.step()
        second.step()
    assert records.seen("kind", "name", "step", "phase") == [
        ("step", "Still", 1, "iteration"),
        ("step", "Still", 2, "iteration"),
    ]
    tracer.begin_steps(has_loader=True)
    first.step()
    assert len(records.events) == 2


class _Device:
    def __init__(self, name: str) -> None:
        self.type = name


class _Tensor:
    def __init__(self, device: str) -> None:
        self.device = _Device(device)


def test_only_what_holds_the_rank_up_is_a_wait_for_others(tracer: Tracer, records: Records) -> None:
    module = ModuleType("collectives")
    module.init_process_group = lambda: None  # type: ignore[attr-defined]
    module.get_rank = lambda: 3  # type: ignore[attr-defined]
    module.barrier = lambda async_op=False: async_op or None  # type: ignore[attr-defined]
    module.monitored_barrier = lambda: None  # type: ignore[attr-defined]
    module.all_reduce = lambda tensor, async_op=False: async_op or None  # type: ignore[attr-defined]
    Ranks(tracer).watch(module)
    module.init_process_group()
    module.barrier()
    module.barrier(async_op=True)
    module.monitored_barrier()
    module.all_reduce(_Tensor("cpu"))
    module.all_reduce(_Tensor("cuda"))
    module.all_reduce(tensor=_Tensor("cpu"), async_op=True)
    assert records.seen("kind", "name", "rank") == [
        ("barrier", "barrier", 3),
        ("barrier", "monitored_barrier", 3),
        ("barrier", "all_reduce", 3),
    ]


def test_a_module_is_watched_when_it_was_imported_and_is_otherwise_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    seen: list[int] = []
    after_import({"watched_module": lambda module: seen.append(module.value)})
    module = importlib.import_module("watched_module")
    assert seen == [1]
    assert module.__spec__.loader.get_source("watched_module") == "value = 1\n"
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    importlib.reload(module)
    assert seen == [1, 1]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")


def test_a_call_that_raises_raises_and_is_not_noted() -> None:
    noted: list[Any] = []
    watched = Watcher("calls").timed(lambda: 1 / 0, noted.append)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            watched()
    assert noted == []


def test_the_first_error_of_a_watcher_is_its_last(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("broken")

    watched = Watcher("calls").timed(lambda number: number + 1, fail)
    assert [watched(number) for number in range(3)] == [1, 2, 3]
    assert capsys.readouterr().err.count("RuntimeError: broken") == 1


@pytest.mark.parametrize(
    ("environment", "rank", "phase"),
    [
        ({}, 0, "initialisation"),
        ({"RANK": "3", "SLURM_PROCID": "1"}, 3, "initialisation"),
        ({"SLURM_PROCID": "1"}, 1, "initialisation"),
        ({"RANK": "x", "PMI_RANK": "2"}, 2, "initialisation"),
        ({"HEADRACE_PHASE": "evaluation"}, 0, "evaluation"),
    ],
)
def test_a_process_is_of_the_rank_that_its_launcher_says(
    environment: dict[str, str], rank: int, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "HEADRACE_PHASE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert inherited_standing() == Standing(rank=rank, phase=phase)


def test_a_rank_that_a_traced_program_launches_is_at_nothing_yet(
    tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer.begin_steps(has_loader=True)
    tracer.publish()
    monkeypatch.setenv("RANK", "3")
    assert inherited_standing() == Standing(rank=3)


def test_a_program_without_standard_error_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    Watcher("calls").try_to(lambda: 1 / 0)


def test_a_spawned_process_is_at_what_its_parent_is_at(tracer: Tracer) -> None:
    tracer.standing.rank, tracer.standing.step = 5, 40
    tracer.begin_steps(has_loader=True)
    tracer.publish()
    assert inherited_standing() == Standing(rank=5, phase="iteration", step=40)
