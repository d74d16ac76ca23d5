from __future__ import annotations

import itertools
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pytest

from contract.storage_contract import StorageContract
from headrace.core.errors import (
    AccessError,
    CallerError,
    ConfigError,
    DeadlineError,
    NotFoundError,
    StorageError,
)
from headrace.storage.fsspecconfig import FsspecConfig
from headrace.storage.fsspecinfo import file_info
from headrace.storage.fsspecstore import FsspecStorage
from headrace.storage.opening import open_storage, require_openable
from headrace.storage.port import FileInfo, Storage

NUMBERS = itertools.count()


@pytest.fixture
def memory() -> str:
    """URL of an empty folder in memory."""
    folder = f"/tests/{next(NUMBERS)}"
    fsspec.filesystem("memory").makedirs(folder)
    return f"memory:/{folder}"


class TestInMemory(StorageContract):
    renames_by_copying = True

    def make(self, place: Path) -> Storage:
        folder = f"/contract {next(NUMBERS)}"
        fsspec.filesystem("memory").makedirs(folder)
        return FsspecStorage(f"memory:/{folder}")


class TestOnDisk(StorageContract):
    def make(self, place: Path) -> Storage:
        return FsspecStorage(f"fsspec+file://{place}")


def test_a_scheme_that_only_fsspec_has_needs_no_mark(memory: str) -> None:
    for url in (memory, f"fsspec+{memory}"):
        storage = open_storage(url)
        assert isinstance(storage, FsspecStorage)
        assert storage.url == url
        assert require_openable(url) == url


def test_what_fsspec_needs_and_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    for ask in (open_storage, require_openable):
        with pytest.raises(ConfigError, match="paramiko"):
            ask("sftp://me@host/data")
    with pytest.raises(ConfigError, match="gopher"):
        open_storage("fsspec+gopher://host/data")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.delitem(sys.modules, "headrace.storage.fsspecstore")
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[fsspec\]'"):
        open_storage("fsspec+sftp://host/data")
    with pytest.raises(CallerError, match="'sftp' is not supported"):
        open_storage("sftp://host/data")


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(CallerError, match="in the environment") as caught:
        open_storage("sftp://me:hush@host/data")
    assert "hush" not in str(caught.value)


def test_a_folder_that_is_not_there_is_not_opened(memory: str) -> None:
    with pytest.raises(NotFoundError, match="no folder at memory://"):
        open_storage(f"{memory}/nowhere")


def test_a_file_system_that_hangs_is_given_up(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, thawed = FsspecStorage(memory, FsspecConfig(timeout_s=0.05)), threading.Event()
    monkeypatch.setattr(storage._fs, "info", lambda _: thawed.wait(30))
    with pytest.raises(DeadlineError, match=r"HEADRACE_FSSPEC_TIMEOUT_S=0\.05"):
        storage.stat("x")
    thawed.set()


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (PermissionError("no"), AccessError, "permission denied"),
        (ConnectionResetError("gone"), StorageError, "ConnectionResetError: gone"),
        (KeyError("odd"), StorageError, "KeyError: 'odd'"),
    ],
)
def test_what_a_file_system_raises_is_translated(
    memory: str,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    error: type[Exception],
    said: str,
) -> None:
    storage = FsspecStorage(memory)

    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(storage._fs, "cat_ranges", fail)
    with pytest.raises(error, match=said):
        storage.read("x", 0, 1)


def test_a_name_that_looks_like_a_pattern_is_one_file(memory: str) -> None:
    storage = open_storage(memory)
    for name in ("a*", "ab", "[x]/y", "x/y"):
        storage.write(name, name.encode())
    storage.rename("a*", "c")
    storage.delete_folder("[x]")
    assert [info.path for info in storage.list()] == ["ab", "c", "x/y"]


@pytest.mark.parametrize(
    ("told", "version", "modified_s"),
    [
        ({"ETag": '"1"', "LastModified": datetime(1970, 1, 2, tzinfo=UTC)}, '"1"', 86400.0),
        ({"mtime": 1.5, "created": 1.0}, "1.5", 1.5),
        ({"updated": "1970-01-02T00:00:00+00:00"}, "86400.0", 86400.0),
        ({"md5Hash": "x", "updated": "yesterday"}, "x", None),
    ],
)
def test_a_file_is_told_apart_by_what_its_file_system_tells(
    told: dict[str, object], version: str, modified_s: float | None
) -> None:
    info = file_info({"name": "x", "type": "file", "size": 3, **told}, "x")
    assert info == FileInfo("x", 3, version)
    assert info.modified_s == modified_s


@pytest.mark.parametrize("told", [{"size": 3}, {"size": None, "mtime": 1.0}])
def test_a_file_system_that_tells_no_version_or_size_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(StorageError, match="nothing that changes with the content"):
        file_info({"name": "x", "type": "file", **told}, "x")
