"""Pins keep a checkpoint from being removed, by the store's clock and against every race."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

import headrace
from headrace.checkpoint.pinning import PinHolder, pin
from headrace.checkpoint.pins import (
    lease_path,
    new_lease,
    new_owner,
    pinned,
    pins,
    put_pin,
    remove_pin,
)
from headrace.core.errors import CallerError, NotFoundError
from headrace.storage.hdfs import HdfsStorage
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileInfo
from waiting import eventually

STEP = "run/step-10"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path)
    storage.write(f"{STEP}/.metadata", b"")
    storage.write("run/step-20/.metadata", b"")
    return storage


def age(storage: LocalStorage, path: str, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(f"{storage.url}/{path}", (at, at))


def test_a_pin_counts_for_its_checkpoint_until_it_is_removed(storage: LocalStorage) -> None:
    put_pin(storage, STEP, new_lease("me"))
    assert pinned(storage, [STEP, "run/step-20", "other"]) == {STEP}
    (found,) = pins(storage, [STEP])
    assert (found.lease.owner, found.counts) == ("me", True)
    remove_pin(storage, STEP, "me")
    remove_pin(storage, STEP, "me")
    assert pinned(storage, [STEP]) == frozenset()


def test_whoever_looks_from_another_root_sees_the_same_pins(storage: LocalStorage) -> None:
    put_pin(storage, STEP, new_lease("me"))
    assert pinned(LocalStorage(f"{storage.url}/run"), ["step-10"]) == {"step-10"}


def test_a_pin_counts_for_its_lease_after_it_was_last_written(storage: LocalStorage) -> None:
    put_pin(storage, STEP, new_lease("me", 100.0))
    age(storage, lease_path("pins", STEP, "me"), 90)
    assert pinned(storage, [STEP])
    age(storage, lease_path("pins", STEP, "me"), 110)
    assert not pinned(storage, [STEP])
    assert [found.counts for found in pins(storage, [STEP])] == [False]


def test_clocks_of_hosts_may_differ(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    put_pin(storage, STEP, new_lease("me", 100.0))
    assert pinned(storage, [STEP])


class Timeless(LocalStorage):
    """Tells no times."""

    def write(self, path: str, data: bytes) -> FileInfo:
        info = super().write(path, data)
        return FileInfo(info.path, info.size, info.version)


def test_without_times_a_pin_counts_until_it_is_removed(storage: LocalStorage) -> None:
    put_pin(storage, STEP, new_lease("me", 100.0))
    age(storage, lease_path("pins", STEP, "me"), 1000)
    assert pinned(Timeless(storage.url), [STEP])


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"owner":"me","lease_s":1e400}'])
def test_a_damaged_pin_counts_for_the_usual_time(storage: LocalStorage, damage: bytes) -> None:
    path = lease_path("pins", STEP, "me")
    storage.write(path, damage)
    assert [found.lease.owner for found in pins(storage, [STEP])] == ["me"]
    assert pinned(storage, [STEP])
    age(storage, path, 10_000)
    assert not pinned(storage, [STEP])


def test_what_is_not_there_or_being_removed_cannot_be_pinned(storage: LocalStorage) -> None:
    with pytest.raises(NotFoundError, match="pin another"):
        put_pin(storage, "run/step-30", new_lease("me"))
    removal = lease_path("removals", STEP, "them")
    storage.write(removal, b'{"owner":"them","host":"far","lease_s":100}')
    with pytest.raises(NotFoundError, match="being removed by them on far"):
        put_pin(storage, STEP, new_lease("me"))
    assert pins(storage, [STEP, "run/step-30"]) == ()
    age(storage, removal, 200)
    put_pin(storage, STEP, new_lease("me"))


@pytest.mark.parametrize("owner", ["", "../x", "a/b", ".hidden", "x" * 200, "a b"])
def test_an_owner_that_cannot_be_a_name_is_refused(owner: str) -> None:
    with pytest.raises(CallerError, match="owner"):
        new_lease(owner)


def test_owners_that_are_made_up_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "Üser /x" * 40)
    assert len({new_lease(new_owner()).owner for _ in range(20)}) == 20


def test_a_lease_that_cannot_be_is_refused() -> None:
    for lease_s in (0, -1, float("nan"), float("inf")):
        with pytest.raises(CallerError, match="last"):
            new_lease("me", lease_s)


def test_a_held_pin_is_renewed_and_removed_at_the_end(storage: LocalStorage) -> None:
    path = lease_path("pins", STEP, "me")
    with PinHolder(storage, STEP, owner="me", lease_s=2.0) as holder:
        first = storage.stat(path).version
        eventually(lambda: storage.stat(path).version != first)
        assert holder.holds
    assert not holder.holds
    assert pins(storage, [STEP]) == ()


def test_a_pin_that_somebody_removed_is_not_put_again(storage: LocalStorage) -> None:
    with PinHolder(storage, STEP, owner="me") as holder:
        remove_pin(storage, STEP, "me")
        with pytest.raises(NotFoundError):
            holder.renew()
    assert pins(storage, [STEP]) == ()


def test_a_pointer_is_not_pinned_but_explained(storage: LocalStorage) -> None:
    storage.write("run/latest", b"step-10")
    with pytest.raises(NotFoundError, match=r"latest is a pointer, which names .*/step-10 now"):
        headrace.pin(f"{storage.url}/run/latest")


def test_a_pin_is_held_by_its_url_in_hdfs(hdfs_dir: str) -> None:
    with closing(HdfsStorage(hdfs_dir)) as storage:
        storage.write("step-10/.metadata", b"")
        with headrace.pin(f"{hdfs_dir}/step-10/", owner="me") as holder:
            assert holder.holds
            assert pinned(storage, ["step-10"]) == {"step-10"}
        assert not pinned(storage, ["step-10"])


def test_a_pin_is_held_by_its_path(storage: LocalStorage) -> None:
    with pin(Path(storage.url) / STEP):
        assert pinned(storage, [STEP])
    assert not pinned(storage, [STEP])


def test_a_link_to_a_checkpoint_pins_that_checkpoint(storage: LocalStorage) -> None:
    link = Path(storage.url) / "newest"
    link.symlink_to(Path(storage.url) / STEP)
    with pin(link):
        assert pinned(storage, [STEP])


def test_a_root_cannot_be_pinned() -> None:
    with pytest.raises(CallerError, match="folder above"), pin("/"):
        pass


def test_names_with_odd_letters_are_pinned_in_hdfs(hdfs_dir: str) -> None:
    with closing(HdfsStorage(hdfs_dir)) as storage:
        storage.write("step=10, é/.metadata", b"")
        with pin(f"{hdfs_dir}/step=10, é"):
            assert pinned(storage, ["step=10, é"])
