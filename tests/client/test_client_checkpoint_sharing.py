"""Ranks of a host read once what several of them want, and wait for nobody who is gone."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_ranks import run_ranks
from torch.distributed.checkpoint.api import CheckpointException
from training_state import blank_state, random_state, same

from headrace.client.checkpoint.bundles import Claims, cut_bundles, find_shared
from headrace.client.checkpoint.sharing import HEAD_BYTES, SharedFolder, ShareLimits
from headrace.core.errors import ConfigError
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileRange
from headrace.torch import CheckpointReader

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def limits(tmp_path: Path) -> ShareLimits:
    folder = tmp_path / "shm"
    folder.mkdir()
    return ShareLimits(folder=str(folder), keep_free=0.0, bundle_bytes=100_000, wait_s=10.0)


def base(limits: ShareLimits) -> Path:
    return Path(limits.folder) / f"headrace-checkpoints-{os.getuid()}"


def in_a_fork(work: Callable[[], Any]) -> multiprocessing.process.BaseProcess:
    """Start work in another process, which ends without tidying up."""

    def run() -> None:
        work()
        os._exit(0)

    process = FORK.Process(target=run)
    process.start()
    return process


# The memory.


def test_bytes_that_one_brings_are_found_by_others(limits: ShareLimits) -> None:
    first, second = SharedFolder("it", limits), SharedFolder("it", limits)
    assert first.find("a") is None
    claim = first.claim("a", 5)
    assert claim is not None
    with claim:
        assert second.claim("a", 5) is None
        claim.memory[:] = b"bytes"
        assert second.find("a") is None
        claim.publish()
    found = second.find("a")
    assert found is not None
    assert bytes(found) == b"bytes"
    assert found.readonly
    assert second.claim("a", 5) is None
    assert first.host == second.host


def test_a_claim_that_is_given_up_can_be_claimed_anew(limits: ShareLimits) -> None:
    folder = SharedFolder("it", limits)
    for _ in range(2):
        claim = folder.claim("a", 5)
        assert claim is not None
        with claim:
            pass
    assert folder.find("a") is None


def test_the_claim_of_a_killed_process_is_free_at_once(limits: ShareLimits) -> None:
    folder = SharedFolder("it", limits)
    ready = FORK.Event()

    def claim_and_hang() -> None:
        claim = SharedFolder("it", limits).claim("a", 5)
        ready.set()
        time.sleep(60)
        del claim

    other = in_a_fork(claim_and_hang)
    assert ready.wait(30)
    assert folder.claim("a", 5) is None
    assert other.pid is not None
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    assert folder.claim("a", 5) is not None


def test_damaged_bytes_are_not_taken_and_are_brought_anew(limits: ShareLimits) -> None:
    folder = SharedFolder("it", limits)
    claim = folder.claim("a", 5)
    assert claim is not None
    with claim:
        claim.memory[:] = b"bytes"
        claim.publish()
    file = base(limits) / "it" / "a"
    data = bytearray(file.read_bytes())
    for damage in (data[: HEAD_BYTES + 3], data[:10], b"", bytes(len(data))):
        file.write_bytes(damage)
        assert folder.find("a") is None
        file.unlink(missing_ok=True)
    data[-1] ^= 1
    file.write_bytes(data)
    assert folder.find("a") is None
    assert folder.claim("a", 5) is not None


def test_the_last_one_that_leaves_removes_everything(limits: ShareLimits) -> None:
    first, second = SharedFolder("it", limits), SharedFolder("it", limits)
    first.leave()
    assert (base(limits) / "it").exists()
    second.leave()
    second.leave()
    assert not (base(limits) / "it").exists()


def test_what_dead_processes_left_is_removed_by_the_next_one(limits: ShareLimits) -> None:
    kept: list[SharedFolder] = []
    in_a_fork(lambda: kept.append(SharedFolder("dead", limits))).join()
    assert (base(limits) / "dead").exists()
    alive = SharedFolder("alive", limits)
    SharedFolder("next", limits).leave()
    assert [path.name for path in base(limits).iterdir()] == ["alive"]
    alive.leave()


def test_a_forked_child_does_not_remove_what_its_parent_uses(limits: ShareLimits) -> None:
    folder = SharedFolder("it", limits)
    in_a_fork(folder.leave).join()
    assert (base(limits) / "it").exists()


def test_what_does_not_fit_is_not_shared(limits: ShareLimits) -> None:
    full = ShareLimits(folder=limits.folder, keep_free=0.999999)
    folder = SharedFolder("it", full)
    assert folder.claim("a", 5) is None
    begin = time.monotonic()
    assert folder.make_once("a", lambda: b"bytes") == b"bytes"
    assert time.monotonic() - begin < limits.wait_s / 2


def test_memory_that_ran_out_after_all_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedFolder, "has_room", lambda *_: True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        folder = SharedFolder("it", ShareLimits(folder=memory))
        assert folder.claim("a", 1 << 45) is None
        assert not list(Path(memory).rglob("*.part"))
        assert folder.claim("a", 5) is not None
        folder.leave()


def test_memory_that_is_removed_while_it_is_used_counts_as_full(limits: ShareLimits) -> None:
    folder = SharedFolder("it", limits)
    claim = folder.claim("a", 5)
    assert claim is not None
    host = folder.host
    shutil.rmtree(base(limits))
    with claim:
        claim.publish()
    assert folder.host == host
    assert not folder.has_room(0)
    assert folder.find("a") is None
    assert folder.claim("a", 5) is None
    begin = time.monotonic()
    assert folder.make_once("a", lambda: b"bytes") == b"bytes"
    assert time.monotonic() - begin < limits.wait_s / 2
    folder.leave()


def test_memory_without_room_for_another_file_is_full(
    limits: ShareLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SharedFolder("it", limits)
    full = list(os.statvfs(limits.folder))
    full[5:8] = 10, 1, 1  # files in all, free, and free for this user
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(full))
    assert not folder.has_room(0)
    monkeypatch.undo()

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "open", refuse)
    assert folder.claim("a", 5) is None


def test_a_folder_of_somebody_else_is_not_used(limits: ShareLimits) -> None:
    base(limits).mkdir(mode=0o755)
    base(limits).chmod(0o755)
    with pytest.raises(PermissionError):
        SharedFolder("it", limits)


def test_one_of_many_processes_reads(limits: ShareLimits, tmp_path: Path) -> None:
    def read() -> bytes:
        (tmp_path / f"read-{os.getpid()}").touch()
        time.sleep(0.2)
        return b"bytes"

    def take() -> None:
        assert bytes(SharedFolder("it", limits).make_once("a", read)) == b"bytes"
        (tmp_path / f"done-{os.getpid()}").touch()

    folder = SharedFolder("it", limits)
    for process in [in_a_fork(take) for _ in range(4)]:
        process.join()
    assert len(list(tmp_path.glob("read-*"))) == 1
    assert len(list(tmp_path.glob("done-*"))) == 4
    folder.leave()


def test_a_reader_that_hangs_is_not_waited_for_for_ever(limits: ShareLimits) -> None:
    impatient = ShareLimits(folder=limits.folder, keep_free=0.0, wait_s=0.2)
    hanging = SharedFolder("it", limits).claim("a", 5)
    assert SharedFolder("it", impatient).make_once("a", lambda: b"bytes") == b"bytes"
    del hanging


def test_what_cannot_be_made_can_be_tried_by_the_next_one(limits: ShareLimits) -> None:
    folder = SharedFolder("it", limits)

    def fail() -> bytes:
        raise OSError("it fails")

    with pytest.raises(OSError, match="it fails"):
        folder.make_once("a", fail)
    assert folder.make_once("a", lambda: b"bytes") == b"bytes"


@pytest.mark.parametrize("wrong", [{"keep_free": 1.0}, {"bundle_bytes": 0}, {"wait_s": 0.0}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ShareLimits(**wrong)


# Who shares what.


def claims(host: str, wanted: dict[int, int]) -> Claims:
    return Claims(host, np.array(list(wanted), np.int64), np.array(list(wanted.values()), np.int64))


def test_pieces_are_shared_that_ranks_of_a_host_would_read_more_than_once() -> None:
    lengths = np.array([100, 100, 100, 100], np.int64)
    shared = find_shared(
        [
            claims("a", {0: 100, 1: 50, 2: 100}),
            claims("b", {0: 100, 3: 100}),
            claims("a", {0: 100, 1: 50, 3: 100}),
            None,
        ],
        lengths,
    )
    assert shared[1] is None
    assert shared[3] is None
    assert shared[0] is not None
    assert shared[2] is not None
    assert shared[0].pieces.tolist() == shared[2].pieces.tolist() == [0]
    assert [(one.position, one.ranks) for one in (shared[0], shared[2])] == [(0, 2), (1, 2)]


def test_bundles_hold_neighbours() -> None:
    ranges = [
        FileRange("b", 0, 10), FileRange("a", 20, 50), FileRange("a", 0, 20), FileRange("b", 10, 90)
    ]  # fmt: skip
    bundles = list(cut_bundles(np.arange(4), ranges, 70))
    assert [bundle.pieces for bundle in bundles] == [(2, 1), (0,), (3,)]
    assert [bundle.starts for bundle in bundles] == [(0, 20), (0,), (0,)]
    assert [bundle.nbytes for bundle in bundles] == [70, 10, 90]
    assert len({bundle.name for bundle in bundles}) == 3


# Whole loads.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    dcp.save(random_state(), checkpoint_id=folder, no_dist=True)
    return folder


def load_as_rank(saved: Path, limits: ShareLimits) -> tuple[bool, int, int]:
    loaded = blank_state()
    reader = CheckpointReader(saved, sharing=limits)
    dcp.load(loaded, storage_reader=reader)
    statistics = reader.statistics()
    return same(loaded, random_state()), statistics.fetch.read_bytes, statistics.shared_bytes


def test_ranks_of_a_host_read_a_checkpoint_once_together(
    saved: Path, limits: ShareLimits, tmp_path: Path
) -> None:
    results = run_ranks(4, lambda _: load_as_rank(saved, limits), tmp_path)
    assert all(is_same for is_same, _, _ in results)
    nbytes = (saved / "__0_0.distcp").stat().st_size
    assert 0.9 * nbytes < sum(read for _, read, _ in results) <= nbytes
    assert list(base(limits).iterdir()) == []


def test_the_metadata_is_read_once_for_a_host(
    saved: Path, limits: ShareLimits, tmp_path: Path
) -> None:
    read = LocalStorage.read

    def noting(storage: LocalStorage, path: str, *arguments: Any) -> bytes:
        if path == ".metadata":
            (tmp_path / f"read-{os.getpid()}").touch()
        return read(storage, path, *arguments)

    def work(_: int) -> bool:
        LocalStorage.read = noting
        return load_as_rank(saved, limits)[0]

    assert run_ranks(3, work, tmp_path) == [True] * 3
    assert len(list(tmp_path.glob("read-*"))) == 1


def test_groups_of_ranks_load_checkpoints_of_their_own_one_after_another(
    limits: ShareLimits, tmp_path: Path
) -> None:
    for number in range(2):
        state = {"a": torch.full((300_000,), number)}
        dcp.save(state, checkpoint_id=tmp_path / f"saved-{number}", no_dist=True)

    def work(rank: int) -> list[tuple[bool, bool]]:
        groups = [torch.distributed.new_group(ranks) for ranks in ([0, 1], [2, 3])]
        reader = CheckpointReader(tmp_path / "saved-0", sharing=limits)
        found = []
        for turn in range(3):
            number = (rank // 2 + turn) % 2
            loaded = {"a": torch.zeros(300_000, dtype=torch.int64)}
            dcp.load(
                loaded,
                checkpoint_id=tmp_path / f"saved-{number}",
                storage_reader=reader,
                process_group=groups[rank // 2],
            )
            statistics = reader.statistics()
            took = statistics.shared_bytes + statistics.fetch.wanted_bytes
            found.append((bool((loaded["a"] == number).all()), 2_400_000 <= took < 2_500_000))
        return found

    assert run_ranks(4, work, tmp_path) == [[(True, True)] * 3] * 4


def test_ranks_without_shared_memory_read_each_for_itself(saved: Path, tmp_path: Path) -> None:
    nowhere = ShareLimits(folder=str(tmp_path / "nowhere"))
    results = run_ranks(2, lambda _: load_as_rank(saved, nowhere), tmp_path)
    nbytes = (saved / "__0_0.distcp").stat().st_size
    assert [(is_same, read >= 0.9 * nbytes) for is_same, read, _ in results] == [(True, True)] * 2


def test_memory_that_is_too_full_to_share_is_told(
    saved: Path, limits: ShareLimits, tmp_path: Path
) -> None:
    """A machine on which ranks share nothing is slow, and nothing else says why."""

    def work(_: int) -> tuple[bool, int, list[str]]:
        told: list[str] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("headrace.checkpoint").addHandler(handler)
        is_same, _, shared_bytes = load_as_rank(saved, replace(limits, keep_free=0.999999))
        return is_same, shared_bytes, told

    for is_same, shared_bytes, told in run_ranks(2, work, tmp_path):
        assert (is_same, shared_bytes) == (True, 0)
        (text,) = told
        assert text.startswith(f"{limits.folder} has less than 100 % of its space free")
        assert "each for itself" in text


def test_a_state_is_loaded_although_the_shared_memory_is_removed(
    saved: Path, limits: ShareLimits, tmp_path: Path
) -> None:
    read_data = CheckpointReader.read_data

    def removing(*arguments: Any) -> Any:
        if torch.distributed.get_rank() == 0:
            shutil.rmtree(base(limits))
        torch.distributed.barrier()
        return read_data(*arguments)

    def work(_: int) -> tuple[bool, int, int]:
        CheckpointReader.read_data = removing
        return load_as_rank(saved, limits)

    results = run_ranks(3, work, tmp_path)
    assert [is_same for is_same, _, _ in results] == [True] * 3


def test_a_rank_that_is_killed_while_it_reads_does_not_hold_up_the_others(
    saved: Path, limits: ShareLimits, tmp_path: Path
) -> None:
    """The others load everything; that one is gone they learn from torch's next collective."""
    read = LocalStorage.read

    def killing(storage: LocalStorage, path: str, *arguments: Any) -> bytes:
        if path != ".metadata":
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return read(storage, path, *arguments)

    def waiting(storage: LocalStorage, path: str, *arguments: Any) -> bytes:
        while path != ".metadata" and not (tmp_path / "killed").exists():
            time.sleep(0.01)
        return read(storage, path, *arguments)

    def work(rank: int) -> bool:
        LocalStorage.read = killing if rank == 1 else waiting
        loaded = blank_state()
        with pytest.raises(RuntimeError):
            dcp.load(loaded, storage_reader=CheckpointReader(saved, sharing=limits))
        return same(loaded["types"], random_state()["types"])

    results = run_ranks(3, work, tmp_path, killed=1)
    assert results == [True, None, True]


@pytest.mark.parametrize("step", ["create_local_plan", "resolve_tensor"])
def test_a_rank_that_fails_does_not_hold_up_the_others(
    saved: Path, limits: ShareLimits, tmp_path: Path, step: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("it fails")

    patient = replace(limits, wait_s=50.0)

    def work(rank: int) -> list[int]:
        if rank == 1:
            setattr(dcp.DefaultLoadPlanner, step, fail)
        with pytest.raises(CheckpointException) as caught:
            dcp.load(blank_state(), storage_reader=CheckpointReader(saved, sharing=patient))
        return list(caught.value.failures)

    begin = time.monotonic()
    assert run_ranks(3, work, tmp_path) == [[1]] * 3
    assert time.monotonic() - begin < 40
    SharedFolder("next", limits).leave()
    assert list(base(limits).iterdir()) == []
