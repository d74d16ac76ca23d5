"""What a writer to a directory leaves where it is killed, fails, or needs a name at once."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from headrace.core.errors import StorageError
from headrace.storage.local import LocalStorage
from headrace.storage.unnamed import UnnamedFile


def knows_unnamed(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_WRONLY | os.O_TMPFILE))
    except OSError:
        return False
    return True


@pytest.fixture
def without_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer as file systems do that do not know files without a name."""
    real_open = os.open

    def refusing(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not known", path)
        return real_open(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", refusing)


def test_a_writer_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    if not knows_unnamed(tmp_path):
        pytest.skip("this file system does not know files without a name")
    child = os.fork()
    if not child:
        try:
            writer = LocalStorage(tmp_path).create("folder/x")
            writer.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.usefixtures("without_unnamed")
def test_where_files_need_a_name_it_is_hidden_until_they_are_whole(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for content in (b"new", b"in its place"):
        writer = storage.create("x")
        writer.write(content)
        assert [path.name[:3] for path in tmp_path.iterdir() if path.name != "x"] == [".x."]
        writer.commit()
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
        assert storage.read("x") == content
    writer = storage.create("x")
    writer.abort()
    assert storage.read("x") == b"in its place"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("before", [None, b"before"])
def test_what_cannot_be_named_changes_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    storage = LocalStorage(tmp_path)
    if before is not None:
        storage.write("x", before)
    writer = storage.create("x")
    writer.write(b"after")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "replace" if before else "link", fail)
    with pytest.raises(StorageError, match="device"):
        writer.commit()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([before] if before else [])


def test_a_file_has_the_rights_that_the_mask_leaves(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        file = UnnamedFile(str(tmp_path / "x"))
        file.publish()
        file.discard()
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
