"""Pointers that a writer leaves beside checkpoints, under a name of its user's choice, follow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from roots_for_tests import MARKER, replicating, save_checkpoint, wait_over, wanted

from headrace.controller.replicating.way import Way
from headrace.storage.local import LocalStorage
from headrace.torch import CheckpointWriter
from headrace.transfer.group import copy_group


class Roots:
    """A source, a destination, and the way between them, one step at a time."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.source, self.destination = folder / "source", folder / "destination"
        self.way = way

    def save(self, *steps: int) -> None:
        for step in steps:
            save_checkpoint(self.source, step, shards=1, nbytes=100)

    def name(self, step: int, pointer: str = "latest", *, root: Path | None = None) -> None:
        (root or self.source).joinpath(pointer).write_text(f"checkpoint-{step}")

    def publish(self, *steps: int) -> None:
        for step in steps:
            path = f"checkpoint-{step}"
            files = [file.name for file in (self.source / path).iterdir()]
            for chunk in self.way.prepare(path, files).chunks:
                tasks = self.way.tasks(path, chunk.key)
                copy_group(tasks, self.way.source, self.way.destination, lambda _: None)
            self.way.publish(path)

    def look(self) -> None:
        self.way.look(0.0)
        self.way.point()

    def named(self, pointer: str = "latest") -> str | None:
        path = self.destination / pointer
        return path.read_text() if path.exists() else None


@contextmanager
def opened(folder: Path) -> Iterator[Roots]:
    for name in ("source", "destination"):
        (folder / name).mkdir(exist_ok=True)
    source, destination = LocalStorage(folder / "source"), LocalStorage(folder / "destination")
    with closing(Way("r", source, destination)) as way:
        yield Roots(folder, way)


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Roots]:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    with opened(tmp_path) as found:
        yield found


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_what_checkpoint_writer_moved_is_there_when_once_has_ended(tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    destination.mkdir()
    writer = CheckpointWriter(source / "run/step-5", pointer="newest.txt", trace=False)
    dcp.save({"w": torch.ones(3)}, storage_writer=writer, no_dist=True)
    for _ in range(2):
        with replicating() as running:
            running.begin("r", wanted(source, destination, once=True))
            wait_over(running, "r", 20.0)
        pointer = destination / "run/newest.txt"
        assert pointer.read_text() == "step-5"
        pointer.unlink()  # as if the process had died before it came to it


def test_it_moves_when_what_it_names_has_arrived_and_not_before(roots: Roots) -> None:
    roots.save(100, 200)
    roots.name(100)
    roots.look()
    roots.publish(200)
    assert roots.named() is None
    roots.publish(100)
    assert roots.named() == "checkpoint-100"
    roots.name(200)
    roots.look()
    assert roots.named() == "checkpoint-200"


def test_it_follows_though_the_source_is_always_a_save_ahead(roots: Roots) -> None:
    roots.save(100)
    roots.name(100)
    roots.look()
    roots.save(200)
    roots.name(200)
    roots.look()
    roots.publish(100)
    assert roots.named() == "checkpoint-100"


def test_it_never_moves_back(roots: Roots, tmp_path: Path) -> None:
    roots.save(100, 200)
    roots.name(200)
    roots.look()
    roots.publish(200, 100)
    roots.name(100)
    with opened(tmp_path) as anew:
        anew.look()
    assert roots.named() == "checkpoint-200"


def test_each_names_what_it_named_at_the_source(roots: Roots) -> None:
    roots.save(100, 200)
    roots.name(200)
    roots.name(100, "best.txt")
    (roots.source / "notes").write_text("the second is better")
    roots.look()
    roots.publish(100, 200)
    assert (roots.named("best.txt"), roots.named()) == ("checkpoint-100", "checkpoint-200")
    assert roots.named("notes") is None


def test_a_path_at_the_source_becomes_a_name(roots: Roots) -> None:
    roots.save(100)
    (roots.source / "latest").write_text(f"{roots.source}/checkpoint-100/\n")
    roots.look()
    roots.publish(100)
    assert roots.named() == "checkpoint-100"


def test_it_names_none_whose_copy_is_damaged_or_gone_since_the_last_look(roots: Roots) -> None:
    roots.save(100)
    roots.look()
    roots.publish(100)
    roots.name(100)
    roots.way.look(0.0)
    marker = roots.destination / "checkpoint-100" / MARKER
    marker.unlink()
    roots.way.point()
    assert roots.named() is None


@pytest.mark.parametrize("own", ["a file", "a folder", "bytes"])
def test_what_is_no_pointer_at_the_destination_is_left_alone_and_told_once(
    roots: Roots, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = roots.destination / "latest"
    if own == "a folder":
        place.mkdir()
    else:
        place.write_bytes(b"mine" if own == "a file" else b"\xff" * 9000)
    roots.save(100)
    roots.name(100)
    roots.look()
    roots.publish(100)
    roots.look()
    assert place.is_dir() or place.stat().st_size in (4, 9000)
    assert caplog.text.count("latest does not move") == 1


def test_looking_alone_writes_nothing(roots: Roots) -> None:
    roots.save(100)
    roots.look()
    roots.publish(100)
    roots.name(100)
    roots.way.look(0.0)
    assert roots.named() is None


def test_a_name_is_not_read_in_part_though_it_grew_since_it_was_listed(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots.save(100, 1000)
    roots.name(100)
    read = LocalStorage.read

    def grown(store: LocalStorage, path: str, *where: int | None) -> bytes:
        if path == "latest":
            roots.name(1000)
        return read(store, path, *where)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalStorage, "read", grown)
    roots.look()
    roots.publish(1000, 100)
    assert roots.named() == "checkpoint-1000"


def test_pointers_are_read_again_only_when_they_changed(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = LocalStorage.read

    def counted(store: LocalStorage, path: str, *where: int | None) -> bytes:
        reads.append(path)
        return read(store, path, *where)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalStorage, "read", counted)
    roots.save(100)
    roots.name(100)
    for _ in range(3):
        roots.look()
    assert reads.count("latest") == 1
