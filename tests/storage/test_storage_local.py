from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from contract.storage_contract import StorageContract
from headrace.core.errors import NotFoundError, StorageError
from headrace.storage import local
from headrace.storage.local import NOWHERE, LocalStorage
from headrace.storage.port import CLOSED_FOLDER


class TestLocalStorage(StorageContract):
    def make(self, place: Path) -> LocalStorage:
        root = place / "root"
        root.mkdir()
        return LocalStorage(root)


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x").write_bytes(b"here")
    (tmp_path / "alias").symlink_to("real")
    storage = LocalStorage(tmp_path)
    assert storage.read("alias/x") == b"here"
    assert [info.path for info in storage.list()] == ["alias/x", "real/x"]


def test_a_link_out_of_the_root_is_listed_but_never_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "secret")
    storage = LocalStorage(root)
    assert [(info.path, info.size, info.version) for info in storage.list()] == [
        ("link", 0, NOWHERE)
    ]
    with pytest.raises(StorageError, match="outside"):
        storage.read("link")
    with pytest.raises(StorageError, match="outside"):
        storage.write("link", b"overwritten")
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_a_folder_link_out_of_the_root_is_listed_and_hides_no_other_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in (root / "b", tmp_path / "outside"):
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(b"x")
    (root / "a").symlink_to(tmp_path / "outside")
    storage = LocalStorage(root)
    assert [(info.path, info.version == CLOSED_FOLDER) for info in storage.list()] == [
        ("a", True),
        ("b/x", False),
    ]
    with pytest.raises(StorageError, match="outside"):
        list(storage.list("a"))


def test_a_folder_closed_to_this_user_is_listed_and_hides_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("closed", "open"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_bytes(b"x")
    scandir = os.scandir

    def guarded(path: str) -> object:
        if path.endswith("/closed"):  # root may look into any folder
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    storage = LocalStorage(tmp_path)
    assert [info.path for info in storage.list()] == ["closed", "open/x"]
    assert next(storage.list()).version == CLOSED_FOLDER
    with pytest.raises(StorageError, match="permission denied"):
        list(storage.list("closed"))


def test_a_wider_trusted_directory_lets_links_lead_there(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "shared").write_bytes(b"shared")
    (root / "link").symlink_to(tmp_path / "shared")
    assert LocalStorage(root, links_within=tmp_path).read("link") == b"shared"


def test_a_sibling_whose_name_starts_like_the_root_is_outside(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data2").mkdir()
    (tmp_path / "data2/x").write_bytes(b"x")
    (tmp_path / "data/x").symlink_to(tmp_path / "data2/x")
    with pytest.raises(StorageError, match="outside"):
        LocalStorage(tmp_path / "data").read("x")


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_bytes(b"")
    (tmp_path / "a/up").symlink_to(tmp_path)
    assert [info.path for info in LocalStorage(tmp_path).list()] == ["a/x"]


def test_a_dangling_link_is_listed_and_not_found(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nothing")
    storage = LocalStorage(tmp_path)
    assert [info.version for info in storage.list()] == [NOWHERE]
    with pytest.raises(NotFoundError, match="check the spelling"):
        storage.read("gone")


def test_a_link_to_itself_is_listed_and_hides_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    (tmp_path / "b").write_bytes(b"")
    assert [info.path for info in LocalStorage(tmp_path).list()] == ["a", "b"]


def test_a_mistyped_file_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train-0001.tar").write_bytes(b"")
    with pytest.raises(NotFoundError, match=r"did you mean .*train-0001\.tar"):
        LocalStorage(tmp_path).read("train-0010.tar")


def test_a_directory_and_a_pipe_are_not_read_as_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    storage = LocalStorage(tmp_path)
    for name in ("folder", "pipe"):
        with pytest.raises(NotFoundError):
            storage.read(name)
    assert list(storage.list()) == []


def test_a_file_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(NotFoundError, match="name the directory"):
        LocalStorage(tmp_path / "x.tar")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "read-only"),
        (errno.EDQUOT, "quota"),
        (errno.EIO, "device"),
    ],
)
def test_an_operating_system_error_says_what_to_do_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("x", b"old")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(local.os, "fsync", fail)
    with pytest.raises(StorageError, match=advice):
        storage.write("x", b"new")
    assert storage.read("x") == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_join_that_breaks_off_is_repeated_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    names = [f"staging/{n}" for n in range(4)]
    for name in names:
        storage.write(name, name.encode())
    unlink = os.unlink

    def unlink_some(path: str) -> None:
        if path.endswith("/2"):
            raise OSError(errno.EIO, "broken")
        unlink(path)

    monkeypatch.setattr(os, "unlink", unlink_some)
    with pytest.raises(StorageError, match="device"):
        storage.assemble("whole", names)
    monkeypatch.undo()
    left = [info.path for info in storage.list("staging", hidden=False)]
    assert left == names[:3]
    storage.assemble("whole", left)
    assert storage.read("whole") == "".join(names).encode()
    assert [info.path for info in storage.list()] == ["whole"]


def test_parts_that_were_written_anew_are_joined_anew(tmp_path: Path) -> None:
    """What an earlier call had joined is not taken for them."""
    storage = LocalStorage(tmp_path)
    for parts in (["staging/a", "staging/b"], ["staging/a"]):
        storage.write("staging/.a.joined", b"of before")
        os.utime(tmp_path / "staging/.a.joined", (1, 1))
        for part in parts:
            storage.write(part, b"new")
        storage.assemble("whole", parts)
        assert storage.read("whole") == b"new" * len(parts)
        assert [info.path for info in storage.list()] == ["whole"]


def test_parts_are_joined_where_the_file_system_shares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "no")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    storage = LocalStorage(tmp_path)
    for name in ("a", "b"):
        storage.write(name, name.encode() * 3)
    storage.assemble("whole", ["b", "a"])
    assert storage.read("whole") == b"bbbaaa"


def test_a_join_without_room_leaves_the_parts_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    storage = LocalStorage(tmp_path)
    for name in ("a", "b"):
        storage.write(name, b"1")
    monkeypatch.setattr(os, "copy_file_range", refuse)
    with pytest.raises(StorageError, match="disk is full"):
        storage.assemble("whole", ["a", "b"])
    assert [info.path for info in storage.list()] == ["a", "b"]


def test_a_renamed_file_stays_renamed_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a", b"x")
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
    )
    storage.rename("a", "folder/b")
    assert synced == [f"{storage.url}/folder"]


@pytest.mark.parametrize("name", ["train-{000000..000009}.tar", "*.tar", "*/*.tar", "train-?.tar"])
def test_a_pattern_in_the_place_of_a_folder_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "train-000009.tar").write_bytes(b"")
    with pytest.raises(NotFoundError, match="is a pattern, which is not expanded"):
        LocalStorage(tmp_path / name)
    (tmp_path / "[x]").mkdir()
    LocalStorage(tmp_path / "[x]")
