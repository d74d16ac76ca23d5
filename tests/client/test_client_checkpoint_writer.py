"""What ``CheckpointWriter`` writes is DCP's own format, and appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_ranks import run_ranks
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.api import CheckpointException
from training_state import blank_state, random_state, same

from headrace.checkpoint.dcp import DcpLayout
from headrace.checkpoint.layout import Folder
from headrace.checkpoint.manifest import MANIFEST, read_manifest
from headrace.checkpoint.pinning import PinHolder
from headrace.client.checkpoint.place import open_place
from headrace.client.torch.checkpoint import writer as writer_module
from headrace.core.errors import CallerError, ConfigError, StorageError
from headrace.storage.local import LocalStorage, LocalWriter
from headrace.storage.opening import open_storage
from headrace.storage.writing import BrokenFileError
from headrace.torch import CheckpointReader, CheckpointWriter

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


def save(state: dict[str, Any], url: Path | str, **options: Any) -> CheckpointWriter:
    writer = CheckpointWriter(url, **options)
    dcp.save(state, storage_writer=writer, no_dist=True)
    return writer


def load(url: Path | str) -> dict[str, Any]:
    loaded = blank_state()
    dcp.load(loaded, storage_reader=CheckpointReader(url), no_dist=True)
    return loaded


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("streams", [1, 3])
def test_torch_s_own_reader_reads_what_was_written(tmp_path: Path, streams: int) -> None:
    save(random_state(), tmp_path / "a" / "step-7", streams=streams)
    manifest, metadata, *shards = names(tmp_path / "a" / "step-7")
    assert (manifest, metadata) == (MANIFEST, ".metadata")
    assert [name[:5] for name in shards] == [f"__0_{number}" for number in range(streams)]
    assert all(name.endswith(".distcp") for name in shards)
    loaded = blank_state()
    dcp.load(loaded, checkpoint_id=tmp_path / "a" / "step-7", no_dist=True)
    assert same(loaded, random_state())
    assert same(load(tmp_path / "a" / "step-7"), random_state())


def test_a_state_is_saved_to_hdfs_and_comes_back(hdfs_dir: str) -> None:
    url = f"{hdfs_dir}/runs/step-7"
    save(random_state(), url, pointer="latest")
    assert same(load(url), random_state())
    assert open_storage(f"{hdfs_dir}/runs").read("latest") == b"step-7"


def test_an_asynchronous_save_is_of_the_state_when_it_began(tmp_path: Path) -> None:
    state = {"a": torch.arange(1000.0)}
    future = dcp.async_save(state, storage_writer=CheckpointWriter(tmp_path / "it"), no_dist=True)
    state["a"] += 1
    future.result()
    loaded = {"a": torch.zeros(1000)}
    dcp.load(loaded, storage_reader=CheckpointReader(tmp_path / "it"), no_dist=True)
    assert torch.equal(loaded["a"], torch.arange(1000.0))


def test_a_writer_that_has_saved_can_be_sent_to_another_process(hdfs_dir: str) -> None:
    writer = save({"a": torch.zeros(3)}, f"{hdfs_dir}/it")
    sent = pickle.loads(pickle.dumps(writer))
    dcp.save({"a": torch.ones(3)}, storage_writer=sent, no_dist=True)
    loaded = {"a": torch.zeros(3)}
    dcp.load(loaded, storage_reader=CheckpointReader(f"{hdfs_dir}/it"), no_dist=True)
    assert loaded["a"].tolist() == [1, 1, 1]


def test_extensions_transform_what_is_saved(tmp_path: Path) -> None:
    if not ZStandard.is_available():
        pytest.skip("torch needs another package for its own extension")
    save(random_state(), tmp_path / "it", extensions=[ZStandard()])
    assert same(load(tmp_path / "it"), random_state())


def test_only_the_part_of_a_memory_that_a_tensor_shows_is_saved(tmp_path: Path) -> None:
    save({"a": torch.zeros(1_000_000)[3:5]}, tmp_path / "it")
    (file,) = (tmp_path / "it").glob("__0_0-*.distcp")
    assert file.stat().st_size < 10_000


def test_the_manifest_has_the_digests_of_all_files(tmp_path: Path) -> None:
    writer = save(random_state(), tmp_path / "it", streams=2)
    storage = LocalStorage(tmp_path)
    manifest = read_manifest(storage, "it")
    assert manifest is not None
    assert sorted(manifest.files) == names(tmp_path / "it")[2:]
    for name, noted in manifest.files.items():
        info = storage.stat(f"it/{name}")
        assert manifest.note(name, size=info.size, version=info.version) == noted
    assert writer.statistics().written_bytes == sum(f.size for f in manifest.files.values())
    assert "29 items" in str(writer.statistics())


def test_a_layout_recognises_what_was_written(tmp_path: Path) -> None:
    save(random_state(), tmp_path / "step-7")
    storage = LocalStorage(tmp_path / "step-7")
    found = DcpLayout().recognise(storage, Folder(path="", files=tuple(storage.list())))
    assert found is not None
    assert found.complete


# Over an older checkpoint.


def test_an_older_checkpoint_is_whole_until_the_new_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"a": torch.zeros(100), "b": torch.zeros(100)}
    new = {"a": torch.ones(100), "b": torch.ones(100)}
    seen: list[float] = []
    save(old, tmp_path / "it", streams=2)
    operations = ("create", "write", "delete", "rename")
    for name in operations:
        real = getattr(LocalStorage, name)

        def looking(*arguments: Any, real: Any = real) -> Any:
            look()
            try:
                return real(*arguments)
            finally:
                look()

        monkeypatch.setattr(LocalStorage, name, looking)

    def look() -> None:
        loaded = {"a": torch.full((100,), 7.0), "b": torch.full((100,), 7.0)}
        dcp.load(loaded, checkpoint_id=tmp_path / "it", no_dist=True)
        assert torch.equal(loaded["a"], loaded["b"])
        seen.append(float(loaded["a"][0]))

    save(new, tmp_path / "it", streams=2)
    assert seen == sorted(seen)
    assert set(seen) == {0.0, 1.0}
    assert len(names(tmp_path / "it")) == 4


def test_what_a_save_that_failed_left_is_gone_after_the_next_one(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    folder.mkdir()
    for number in range(5):
        (folder / f"__{number}_0.distcp").write_bytes(b"left")
        (folder / f".__{number}_0-6777271c.distcp.70a7f35d.part").write_bytes(b"cut off")
    save({"a": torch.ones(3)}, folder)
    manifest, metadata, shard = names(folder)
    assert (manifest, metadata, shard[:6]) == (MANIFEST, ".metadata", "__0_0-")


@pytest.mark.parametrize("ends", [True, False])
def test_two_saves_to_one_folder_never_mix_their_numbers(tmp_path: Path, ends: bool) -> None:
    """As where a job is started again while a rank of the one before hangs in a write."""

    class Overtaken(CheckpointWriter):
        def write_data(self, plan: Any, planner: Any) -> Any:
            save({"a": torch.ones(3)}, tmp_path / "it")
            return super().write_data(plan, planner)

        def finish(self, **results: Any) -> None:
            assert float(loaded()["a"][0]) == 1
            if not ends:
                raise StorageError("it ends here")
            super().finish(**results)

    def loaded() -> dict[str, torch.Tensor]:
        state = {"a": torch.zeros(3)}
        dcp.load(state, storage_reader=CheckpointReader(tmp_path / "it"), no_dist=True)
        return state

    with (
        contextlib.nullcontext() if ends else pytest.raises(CheckpointException, match="ends here")
    ):
        writer = Overtaken(tmp_path / "it")
        dcp.save({"a": torch.full((3,), 2.0)}, storage_writer=writer, no_dist=True)
    assert float(loaded()["a"][0]) == (2 if ends else 1)
    save({"a": torch.ones(3)}, tmp_path / "it")
    assert len(names(tmp_path / "it")) == 3


def test_a_save_removes_nothing_of_one_that_goes_on(tmp_path: Path) -> None:
    class Overtaking(CheckpointWriter):
        def write_data(self, plan: Any, planner: Any) -> Any:
            (tmp_path / "it" / "__0_0-of-another.distcp").write_bytes(b"its")
            return super().write_data(plan, planner)

    (tmp_path / "it").mkdir()
    dcp.save({"a": torch.ones(3)}, storage_writer=Overtaking(tmp_path / "it"), no_dist=True)
    assert "__0_0-of-another.distcp" in names(tmp_path / "it")


def test_each_save_of_a_writer_has_names_of_its_own(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path / "it")
    shards = set()
    for _ in range(3):
        dcp.save({"a": torch.ones(3)}, storage_writer=writer, no_dist=True)
        shards.add(names(tmp_path / "it")[2])
    assert len(shards) == 3
    assert len(names(tmp_path / "it")) == 3


def test_a_checkpoint_that_is_written_over_stays_for_those_who_pinned_it(tmp_path: Path) -> None:
    class Overtaken(CheckpointReader):
        def read_data(self, plan: Any, planner: Any) -> Any:
            save({"a": torch.zeros(3)}, tmp_path / "it")
            return super().read_data(plan, planner)

    save({"a": torch.ones(3)}, tmp_path / "it")
    state = {"a": torch.full((3,), 7.0)}
    with PinHolder(LocalStorage(tmp_path), "it"):
        dcp.load(state, storage_reader=Overtaken(tmp_path / "it"), no_dist=True)
    assert float(state["a"][0]) == 1
    save({"a": torch.ones(3)}, tmp_path / "it")
    assert len(names(tmp_path / "it")) == 3


def test_a_checkpoint_is_not_written_over_unless_it_may(tmp_path: Path) -> None:
    save({"a": torch.ones(3)}, tmp_path / "it")
    before = names(tmp_path / "it")
    with pytest.raises(CheckpointException, match="holds a checkpoint already"):
        save({"a": torch.zeros(3)}, tmp_path / "it", overwrite=False)
    assert names(tmp_path / "it") == before


def test_older_checkpoints_are_removed_unless_somebody_reads_them(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save({"a": torch.ones(3)}, tmp_path / f"step-{step}")
        save({"a": torch.ones(3)}, tmp_path / "another" / f"step-{step}")
    storage = LocalStorage(tmp_path)
    with PinHolder(storage, "step-1"):
        save({"a": torch.ones(3)}, tmp_path / "step-4", keep=2)
        assert sorted(path.name for path in tmp_path.glob("step-*")) == [
            "step-1", "step-3", "step-4",
        ]  # fmt: skip
    save({"a": torch.ones(3)}, tmp_path / "step-5", keep=2)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-4", "step-5"]
    assert len(list((tmp_path / "another").glob("step-*"))) == 3


# Failures.


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file gets longer: as on a full disk, but without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


def test_a_full_disk_is_an_error_and_the_older_checkpoint_is_whole(tmp_path: Path) -> None:
    save(random_state(), tmp_path / "it")
    before = names(tmp_path / "it")
    with full_disk(10_000), pytest.raises(CheckpointException, match=r"File too large"):
        save(blank_state(), tmp_path / "it")
    assert names(tmp_path / "it") == before
    assert same(load(tmp_path / "it"), random_state())


def test_a_file_whose_stream_broke_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, failures = LocalStorage.create, iter([BrokenFileError("a node died")] * 2)

    def breaking(storage: LocalStorage, path: str) -> Any:
        writer = create(storage, path)
        for failure in failures:
            monkeypatch.setattr(writer, "write", _raiser(failure), raising=False)
            break
        return writer

    monkeypatch.setattr(LocalStorage, "create", breaking)
    writer = save(random_state(), tmp_path / "it", streams=1)
    assert writer.statistics().begun_anew == 2
    assert same(load(tmp_path / "it"), random_state())


def test_a_file_whose_stream_broke_within_a_large_tensor_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There ``torch.save`` itself writes, and raises an error of its own instead."""
    write, broken = LocalWriter.write, []

    def breaking(writer: LocalWriter, data: memoryview) -> None:
        if len(data) > 1_000_000 and not broken:
            broken.append(len(data))
            raise BrokenFileError("a node died")
        write(writer, data)

    monkeypatch.setattr(LocalWriter, "write", breaking)
    state = {"a": torch.ones(1_500_000)}
    writer = save(state, tmp_path / "it", streams=1)
    assert broken
    assert writer.statistics().begun_anew == 1
    loaded = {"a": torch.zeros(1_500_000)}
    dcp.load(loaded, storage_reader=CheckpointReader(tmp_path / "it"), no_dist=True)
    assert torch.equal(loaded["a"], state["a"])


def _raiser(error: Exception) -> Any:
    def fail(_: object) -> None:
        raise error

    return fail


def test_a_file_that_the_coordinator_does_not_see_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "VISIBLE_S", 0.1)
    monkeypatch.setattr(writer_module, "LOOK_AGAIN_S", 0.05)
    finish = CheckpointWriter.finish

    def lose(writer: CheckpointWriter, **results: Any) -> None:
        next((tmp_path / "it").glob("__0_0-*.distcp")).unlink()
        finish(writer, **results)

    monkeypatch.setattr(CheckpointWriter, "finish", lose)
    with pytest.raises(CheckpointException, match="the same one on all hosts"):
        save(random_state(), tmp_path / "it")
    assert not (tmp_path / "it" / ".metadata").exists()


def test_threads_of_a_save_end_with_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    save(random_state(), tmp_path / "it", streams=4)
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize(
    "options", [{"streams": 0}, {"pointer": "a/b"}, {"pointer": ""}, {"pointer": ".."}, {"keep": 0}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        CheckpointWriter("/nowhere", **options)


# Several ranks.


def rank_state(rank: int) -> dict[str, Any]:
    return {f"rank-{rank}": torch.full((1000,), float(rank)), "shared": torch.arange(10)}


def test_ranks_write_one_checkpoint_together(tmp_path: Path) -> None:
    def work(rank: int) -> str:
        dcp.save(rank_state(rank), storage_writer=CheckpointWriter(tmp_path / "it", streams=1))
        return "saved"

    assert run_ranks(3, work, tmp_path) == ["saved"] * 3
    loaded = {f"rank-{rank}": torch.zeros(1000) for rank in range(3)}
    dcp.load(loaded, storage_reader=CheckpointReader(tmp_path / "it"), no_dist=True)
    assert [float(one[0]) for one in loaded.values()] == [0, 1, 2]


def test_ranks_save_each_for_itself(tmp_path: Path) -> None:
    def work(rank: int) -> float:
        for factor in (1, 2):
            state = {"mine": torch.full((10,), float(factor * rank))}
            writer = CheckpointWriter(tmp_path / "it", streams=1)
            dcp.save(state, storage_writer=writer, use_collectives=False)
        loaded = {"mine": torch.zeros(10)}
        dcp.load(loaded, storage_reader=CheckpointReader(tmp_path / "it"))
        return float(loaded["mine"][0])

    assert run_ranks(2, work, tmp_path) == [0.0, 2.0]
    assert len(names(tmp_path / "it")) == 4


@pytest.mark.parametrize("option", [{"pointer": "latest"}, {"keep": 2}])
def test_nothing_follows_a_checkpoint_of_which_nobody_knows_when_it_is_complete(
    tmp_path: Path, option: dict[str, Any]
) -> None:
    writer = CheckpointWriter(tmp_path / "it", **option)
    with pytest.raises(CallerError, match="without collectives"):
        dcp.save({"a": torch.ones(3)}, storage_writer=writer, use_collectives=False, no_dist=True)


def test_no_checkpoint_is_visible_when_a_rank_is_killed_in_the_middle(tmp_path: Path) -> None:
    def work(rank: int) -> str:
        if rank == 1:
            CheckpointWriter.write_data = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        dcp.save(rank_state(rank), storage_writer=CheckpointWriter(tmp_path / "it"))
        return "saved"

    results = run_ranks(2, work, tmp_path, killed=1)
    assert results[0] != "saved"
    assert ".metadata" not in names(tmp_path / "it")


# Places.


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("here", "here"),
        ("here/", "here"),
        ("a/b/c", "a/b/c"),
        ("there/c", "c"),
        ("there/c/d", "c/d"),
    ],
)
def test_a_place_need_not_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, folder: str
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    for given in (url, f"{tmp_path}/{url}", f"file://{tmp_path}/{url}"):
        place = open_place(given)
        assert place.folder == folder
        assert f"{place.storage.url}/{folder}" == f"{tmp_path}/{url}".rstrip("/")
        assert place.path("x") == f"{folder}/x"


def test_a_place_may_be_the_top_of_a_store(hdfs: Any) -> None:
    assert open_place(hdfs.url).folder == ""
    assert open_place(f"{hdfs.url}/a").folder == "a"
    with pytest.raises(StorageError):
        open_place("hdfs://127.0.0.1:1/a/b")
