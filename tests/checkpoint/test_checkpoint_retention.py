"""What is removed, what is not, and how it looks meanwhile."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from headrace.checkpoint.find import open_checkpoint
from headrace.checkpoint.layout import Checkpoint, CheckpointFile, Pointer
from headrace.checkpoint.pins import new_lease, pins, put_pin
from headrace.checkpoint.retention import YOUNG_S, prune, remove_checkpoint, superseded
from headrace.core.errors import CallerError, StorageError
from headrace.storage.hdfs import HdfsStorage
from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage


def checkpoint(
    path: str, step: int | None, *, missing: str = "", marked: bool = True
) -> Checkpoint:
    names = ("a", "index") if marked else ("a",)
    return Checkpoint(
        path=path,
        layout="huggingface",
        step=step,
        files=tuple(CheckpointFile(path=n, size=1, version="1", role="other") for n in names),
        missing=missing,
        marker="index",
    )


def paths(found: list[Checkpoint]) -> list[str]:
    return [one.path for one in found]


def test_the_newest_complete_ones_stay() -> None:
    found = [checkpoint(f"step-{n}", n) for n in (40, 5, 30, 20)]
    assert paths(superseded(found, 1)) == ["step-5", "step-20", "step-30"]
    assert paths(superseded(found, 3)) == ["step-5"]
    assert paths(superseded(found, 4)) == paths(superseded(found, 9)) == []


def test_each_folder_is_of_another_run() -> None:
    found = [checkpoint(f"{run}/step-{n}", n) for run in "ab" for n in (1, 2)]
    assert paths(superseded(found, 1)) == ["a/step-1", "b/step-1"]


def test_what_tells_no_step_or_is_the_root_stays() -> None:
    found = [checkpoint("best", None), checkpoint("", 1), checkpoint("x/step-2", 2)]
    assert paths(superseded(found, 1)) == []
    found = [checkpoint("best", None), checkpoint("step-1", 1), checkpoint("step-2", 2)]
    assert paths(superseded(found, 1)) == ["step-1"]


def test_what_is_part_of_another_checkpoint_is_not_looked_at() -> None:
    found = [checkpoint("step-2", 2), checkpoint("step-2/global_step1", 1)]
    found += [checkpoint("step-2/global_step0", 0)]
    assert paths(superseded(found, 1)) == []


def test_what_is_not_complete_never_counts_as_one_of_those_that_stay() -> None:
    unfinished = checkpoint("step-30", 30, missing="no index yet", marked=False)
    found = [checkpoint("step-10", 10), checkpoint("step-20", 20), unfinished]
    assert paths(superseded(found, 1)) == ["step-10"]
    assert paths(superseded([unfinished], 1)) == []


def test_leftovers_of_old_saves_go_but_not_what_is_merely_not_understood() -> None:
    leftover = checkpoint("step-10", 10, missing="no index yet", marked=False)
    damaged = checkpoint("step-11", 11, missing="index is not understood")
    found = [leftover, damaged, checkpoint("step-20", 20)]
    assert paths(superseded(found, 5)) == ["step-10"]


def save(storage: Storage, name: str, *, marker: bool = True) -> None:
    storage.write(f"{name}/model.safetensors", b"\2\0\0\0\0\0\0\0{}")
    storage.write(f"{name}/config.json", b"{}")
    storage.write(f"{name}/optimizer.pt", b"")
    if marker:
        storage.write(f"{name}/trainer_state.json", b"{}")


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path)
    for step in (10, 20, 30):
        save(storage, f"run/checkpoint-{step}")
    return storage


def names(storage: Storage) -> list[str]:
    return sorted({info.path.split("/")[1] for info in storage.list("run", hidden=False)})


def test_old_checkpoints_are_removed_without_a_trace(storage: LocalStorage) -> None:
    assert prune(storage, keep=2, dry_run=True).removed == ("run/checkpoint-10",)
    assert len(names(storage)) == 3
    assert prune(storage, "run", keep=2).removed == ("run/checkpoint-10",)
    assert names(storage) == ["checkpoint-20", "checkpoint-30"]
    assert not list(storage.list("run/.headrace"))


def test_at_least_one_stays(storage: LocalStorage) -> None:
    with pytest.raises(CallerError, match="at least 1"):
        prune(storage, keep=0)


@pytest.mark.parametrize("text", [b"checkpoint-10", b"/data/run/checkpoint-10/\n"])
@pytest.mark.parametrize("pointer", ["latest", "best.txt"])
def test_what_a_file_beside_it_names_stays(
    storage: LocalStorage, pointer: str, text: bytes
) -> None:
    storage.write(f"run/{pointer}", text)
    storage.write("run/config.json", b"{" + bytes(9000))
    storage.write("run/picture", b"\xff\xfe")
    assert prune(storage, keep=1).removed == ("run/checkpoint-20",)
    storage.delete(f"run/{pointer}")
    assert prune(storage, keep=1).removed == ("run/checkpoint-10",)


def test_what_a_link_leads_to_stays(storage: LocalStorage) -> None:
    link = Path(storage.url, "run/best")
    link.symlink_to("checkpoint-10")
    assert prune(storage, keep=1).removed == ("run/checkpoint-20",)
    link.unlink()
    assert prune(storage, keep=1).removed == ("run/checkpoint-10",)


def test_what_is_read_stays_until_it_is_not(storage: LocalStorage) -> None:
    put_pin(storage, "run/checkpoint-10", new_lease("me", 100.0))
    found = prune(storage, keep=1)
    assert (found.removed, found.read) == (("run/checkpoint-20",), ("run/checkpoint-10",))
    at = time.time() - 200
    os.utime(f"{storage.url}/run/.headrace/pins/checkpoint-10/me.json", (at, at))
    assert prune(storage, keep=1).removed == ("run/checkpoint-10",)
    assert pins(storage, ["run/checkpoint-10"]) == ()


def test_a_pin_that_comes_while_it_is_removed_is_seen(storage: LocalStorage) -> None:
    found = open_checkpoint(storage, "run/checkpoint-10")
    put_pin(storage, found.path, new_lease("me"))
    assert not remove_checkpoint(storage, found)
    assert len(names(storage)) == 3
    put_pin(storage, found.path, new_lease("another"))


def test_a_leftover_goes_once_it_is_old_enough_to_be_no_save_that_goes_on(
    storage: LocalStorage,
) -> None:
    save(storage, "run/checkpoint-15", marker=False)
    assert prune(storage, keep=3).young == ("run/checkpoint-15",)
    make_old(storage, "run/checkpoint-15")
    assert prune(storage, keep=3).removed == ("run/checkpoint-15",)


def make_old(storage: LocalStorage, folder: str) -> None:
    for info in storage.list(folder):
        at = time.time() - YOUNG_S - 10
        os.utime(f"{storage.url}/{info.path}", (at, at))


class Breaking(LocalStorage):
    """Fails after some deletions of files, and removes no folders."""

    deletions = 0

    def delete(self, path: str) -> None:
        if "/checkpoint-" in path and ".headrace" not in path:
            self.deletions -= 1
            if self.deletions < 0:
                raise StorageError("away")
        super().delete(path)

    def delete_folder(self, path: str) -> None:
        raise StorageError("away")


@pytest.mark.parametrize("deletions", [1, 2])
def test_a_removal_that_was_cut_off_is_never_seen_whole_and_goes_on(
    storage: LocalStorage, deletions: int
) -> None:
    breaking = Breaking(storage.url)
    breaking.deletions = deletions
    with pytest.raises(StorageError, match="away"):
        prune(breaking, keep=2)
    assert not open_checkpoint(storage, "run/checkpoint-10").complete
    assert prune(storage, keep=2).removed == ("run/checkpoint-10",)
    assert names(storage) == ["checkpoint-20", "checkpoint-30"]
    assert not list(storage.list("run/.headrace"))


def test_remains_that_look_like_nothing_are_removed_unless_they_are_a_new_save(
    storage: LocalStorage,
) -> None:
    storage.write("run/.headrace/removals/checkpoint-5/me.json", b"{}")
    storage.write("run/checkpoint-5/notes", b"")
    prune(storage, keep=3)
    assert "checkpoint-5" in names(storage)
    make_old(storage, "run/checkpoint-5")
    prune(storage, keep=3, dry_run=True)
    assert "checkpoint-5" in names(storage)
    prune(storage, keep=3)
    assert "checkpoint-5" not in names(storage)
    assert not list(storage.list("run/.headrace"))


def test_what_a_pointer_names_stays(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    pointer = Pointer(path="run/latest", content=b"checkpoint-10")
    storage.write("run/latest", b"checkpoint-10\n")
    found = [
        checkpoint("run/checkpoint-10", 10),
        checkpoint("run/checkpoint-20", 20),
        checkpoint("run/checkpoint-30", 30),
    ]
    pointed = [
        Checkpoint(
            path=one.path,
            layout=one.layout,
            step=one.step,
            files=one.files,
            missing="",
            pointer=pointer if one.step == 10 else None,
        )
        for one in found
    ]
    monkeypatch.setattr("headrace.checkpoint.retention.find_checkpoints", lambda *_: pointed)
    assert prune(storage, keep=1).removed == ("run/checkpoint-20",)


def test_checkpoints_in_hdfs_are_removed(hdfs_dir: str) -> None:
    with closing(HdfsStorage(hdfs_dir)) as storage:
        for step in (10, 20):
            save(storage, f"run/checkpoint-{step}")
        assert prune(storage, keep=1).removed == ("run/checkpoint-10",)
        assert names(storage) == ["checkpoint-20"]
