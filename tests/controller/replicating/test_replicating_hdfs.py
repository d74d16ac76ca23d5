"""Replications between real HDFS, and over links that freeze."""

from __future__ import annotations

from pathlib import Path

from roots_for_tests import (
    MARKER,
    content,
    replicating,
    save_checkpoint,
    state_of,
    wanted,
)

from headrace.checkpoint.find import open_checkpoint
from headrace.core.errors import NotFoundError
from headrace.storage.hdfs import HdfsStorage
from headrace.storage.port import Storage
from waiting import eventually


def upload(folder: Path, storage: Storage) -> None:
    """Write a checkpoint's files, the marker last."""
    files = content(folder)
    for name in sorted(files, key=lambda name: name == MARKER):
        storage.write(f"{folder.name}/{name}", files[name])


def test_checkpoints_go_from_hdfs_to_hdfs(hdfs_dir: str, tmp_path: Path) -> None:
    root = HdfsStorage(hdfs_dir)
    root.write("source/notes.txt", b"not of a checkpoint")
    source = HdfsStorage(f"{hdfs_dir}/source")
    folders = [save_checkpoint(tmp_path, step, nbytes=3_000_000) for step in (100, 200)]
    upload(folders[0], source)
    source.write("latest", b"checkpoint-100")
    source.write("best", b"checkpoint-100")
    root.write("destination/best/notes.txt", b"a folder that is called as a pointer is")
    with replicating() as running:
        running.begin("r", wanted(source.url, f"{hdfs_dir}/destination", keep=1))
        destination = HdfsStorage(f"{hdfs_dir}/destination")
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
        eventually(lambda: destination.read("latest") == b"checkpoint-100")
        upload(folders[1], source)
        source.write("latest", b"checkpoint-200")
        eventually(lambda: state_of(running.view("r"), 200)[0] == "published")
        eventually(lambda: not _is_there(destination, "checkpoint-100"))
    assert open_checkpoint(destination, "checkpoint-200").complete
    assert destination.read("latest") == b"checkpoint-200"
    assert destination.read("best/notes.txt")
    for name, data in content(folders[1]).items():
        assert destination.read(f"checkpoint-200/{name}") == data
    assert not [info for info in destination.list() if "staging" in info.path]
    for store in (root, source, destination):
        store.close()


def _is_there(storage: Storage, folder: str) -> bool:
    try:
        return any(storage.list(folder))
    except NotFoundError:
        return False
