"""What was learned of a file is learned once for each of its versions, and forgotten in time."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from headrace.checkpoint.remembered import Remembered
from headrace.checkpoint.safetensors_folder import shortfall
from headrace.core.errors import CorruptDataError
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileInfo


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def test_a_version_is_looked_at_once(storage: LocalStorage) -> None:
    known, learned = Remembered[int](10), []
    for version in ("1", "1", "2", "1"):
        known.of(storage, FileInfo("a", 7, version), lambda: learned.append(0) or len(learned))
    assert len(learned) == 2


def test_the_one_that_was_not_used_for_longest_is_forgotten(storage: LocalStorage) -> None:
    known = Remembered[str](2)
    for path in ("a", "b", "a", "c"):
        known.of(storage, FileInfo(path, 7, "1"), lambda: "first")
    again = {path: known.of(storage, FileInfo(path, 7, "1"), lambda: "anew") for path in "acb"}
    assert again == {"a": "first", "c": "first", "b": "anew"}


def test_what_could_not_be_learned_is_tried_again(storage: LocalStorage) -> None:
    known, file = Remembered[int](2), FileInfo("a", 7, "1")

    def fail() -> int:
        raise CorruptDataError("damaged")

    with pytest.raises(CorruptDataError):
        known.of(storage, file, fail)
    assert known.of(storage, file, lambda: 3) == 3


def test_a_store_is_let_go_of_although_its_files_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    storage = LocalStorage(tmp_path)
    assert shortfall(storage, "", list(storage.list())) == ""
    gone = weakref.ref(storage)
    del storage
    gc.collect()
    assert gone() is None
