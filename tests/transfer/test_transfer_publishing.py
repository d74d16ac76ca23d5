"""A staged copy appears all or nothing, whatever was there, wherever it is cut off."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from copies_for_tests import (
    FILES,
    FOLDER,
    MARKER,
    OTHERS,
    content,
    copy,
    listed,
    publication_of,
    save,
    stage,
    stores,
)

from headrace.checkpoint.arriving import ARRIVING
from headrace.checkpoint.find import find_checkpoints
from headrace.checkpoint.layout import Pointer
from headrace.checkpoint.manifest import read_manifest
from headrace.checkpoint.retention import prune
from headrace.core.errors import CallerError, StaleError
from headrace.devhdfs.cluster import Cluster
from headrace.storage.hdfs import HdfsConfig, HdfsStorage
from headrace.storage.local import LocalStorage, LocalWriter
from headrace.storage.port import FileInfo, Storage
from headrace.storage.shaped import Shape, ShapedStorage
from headrace.transfer.publishing import Publication, is_published, publish
from headrace.transfer.staging import Staging

Both = tuple[LocalStorage, LocalStorage]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Two stores whose files outlive a process, though no power cut, so that tests take no time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return stores(tmp_path)


def test_a_copy_appears_with_its_manifest_and_nothing_else(both: Both) -> None:
    source, destination = both
    save(source)
    copy(source, destination)
    assert content(destination) == FILES
    assert is_published(publication_of(source, destination), destination)
    assert sorted(info.path for info in destination.list()) == sorted(
        [f"{FOLDER}/{path}" for path in FILES] + [f"{FOLDER}/.headrace-manifest.json"]
    )
    manifest = read_manifest(destination, FOLDER)
    assert manifest is not None
    assert manifest.copied_from == f"{source.url}/{FOLDER}"
    for path, noted in manifest.files.items():
        info = destination.stat(f"{FOLDER}/{path}")
        assert (noted.size, noted.version) == (info.size, info.version)


@pytest.mark.parametrize("chunk_bytes", [4, None], ids=["with manifest", "without"])
def test_what_is_there_already_is_left_alone(both: Both, chunk_bytes: int | None) -> None:
    source, destination = both
    save(source, chunk_bytes=chunk_bytes)
    copy(source, destination)
    before = list(destination.list())
    publish(publication_of(source, destination), destination)
    assert list(destination.list()) == before


def test_a_checkpoint_that_was_written_there_counts_as_the_same_if_its_digests_are(
    both: Both,
) -> None:
    source, destination = both
    save(source)
    save(destination)
    assert is_published(publication_of(source, destination), destination)
    save(destination, OTHERS)
    assert not is_published(publication_of(source, destination), destination)
    save(destination, chunk_bytes=None)
    assert not is_published(publication_of(source, destination), destination)


def test_another_checkpoint_in_its_place_is_an_error_unless_it_is_to_be_replaced(
    both: Both,
) -> None:
    source, destination = both
    save(source)
    save(destination, {**OTHERS, "__1_0.distcp": b"more"})
    with pytest.raises(CallerError, match="replace"):
        copy(source, destination)
    assert content(destination) == {**OTHERS, "__1_0.distcp": b"more"}
    copy(source, destination, replace=True)
    assert content(destination) == FILES


def test_leftovers_without_a_marker_are_overwritten_but_no_other_files(both: Both) -> None:
    source, destination = both
    save(source)
    destination.write(f"{FOLDER}/sub/tiny", b"half a checkpoint")
    copy(source, destination)
    assert content(destination) == FILES
    destination.delete(f"{FOLDER}/{MARKER}")
    destination.write(f"{FOLDER}/notes.txt", b"mine")
    with pytest.raises(CallerError, match=r"notes\.txt"):
        copy(source, destination)


class SlowToMove(LocalStorage):
    """A directory in which all files but the marker take a while to be moved into place."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.moved: list[str] = []

    def rename(self, source: str, target: str) -> None:
        time.sleep(0.0 if target.endswith(MARKER) else 0.05)
        super().rename(source, target)
        self.moved.append(target)


def test_a_marker_comes_last_whatever_else_it_is(both: Both) -> None:
    """That of Hugging Face's Trainer is its state, and not what describes the files."""
    source, destination = both
    save(source)
    checkpoint = listed(source)
    roles = {"sub/tiny": "metadata", MARKER: "state"}
    files = tuple(replace(file, role=roles.get(file.path, "weights")) for file in checkpoint.files)
    slow = SlowToMove(destination.url)
    copy(source, slow, replace(checkpoint, files=files))
    assert slow.moved[-1] == f"{FOLDER}/{MARKER}"


def test_chunks_that_are_not_staged_are_told(both: Both) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    with pytest.raises(StaleError, match="9 chunks"):
        publish(publication, destination)
    assert content(destination) == {}


def test_a_file_that_changed_since_it_was_staged_is_not_published(both: Both) -> None:
    source, destination = both
    save(source)
    stage(publication_of(source, destination), source, destination)
    save(source, OTHERS)
    again = publication_of(source, destination)
    with pytest.raises(StaleError, match="not staged"):
        publish(again, destination)
    stage(again, source, destination)
    publish(again, destination)
    assert content(destination) == OTHERS


def test_staged_files_that_vanish_are_copied_again(both: Both) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    stage(publication, source, destination)
    faulty = Faulty(destination.url, fail_at=6)
    with pytest.raises(Died):
        publish(publication, faulty, parallel=1)
    staging = Staging(destination, publication.route)
    seal = staging.look().seal
    assert seal is not None
    assert seal.is_of(publication.plans)
    for path in staging.look().files:
        if not path.endswith(".json"):
            destination.delete(path)
    with pytest.raises(StaleError, match="copy what is missing"):
        publish(publication, destination)
    assert len(staging.look().missing(publication.plans)) > 0
    stage(publication, source, destination)
    publish(publication, destination)
    assert content(destination) == FILES


@pytest.mark.parametrize("joins", [True, False], ids=["joined", "copied"])
def test_chunks_that_change_once_all_were_there_are_copied_again(both: Both, joins: bool) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    stage(publication, source, destination)
    with pytest.raises(Died):
        publish(publication, Faulty(destination.url, fail_at=1, after=True))
    staging = Staging(destination, publication.route)
    staged = staging.look()
    assert staged.seal is not None
    part = staged.part(publication.plans[0].tasks[1])
    assert part is not None
    destination.write(part, b"456")
    other = destination if joins else ShapedStorage(destination, Shape())
    with pytest.raises(StaleError, match="9 bytes of 10"):
        publish(publication, other, parallel=1)
    stage(publication, source, destination)
    publish(publication, other, parallel=1)
    assert content(destination) == FILES


@pytest.mark.parametrize("damage", [b"short", b"9876543210"])
def test_a_file_that_changes_once_it_was_put_together_is_put_together_again(
    both: Both, damage: bytes
) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    stage(publication, source, destination)
    with pytest.raises(Died):
        publish(publication, Faulty(destination.url, fail_at=3, after=True), parallel=1)
    whole = f"{publication.route.staging}/{publication.plans[0].key}-whole"
    destination.write(whole, damage)
    with pytest.raises(StaleError, match="changed there"):
        publish(publication, destination)
    stage(publication, source, destination)
    publish(publication, destination)
    assert content(destination) == FILES


def test_a_checkpoint_may_be_the_root_itself_among_other_files(both: Both) -> None:
    source, destination = both
    save(source, folder="")
    destination.write("notes.txt", b"mine")
    copy(source, destination, listed(source, folder=""))
    assert content(destination, "") == {**FILES, "notes.txt": b"mine"}


def test_the_pointer_is_moved_unless_a_newer_checkpoint_is_there(both: Both) -> None:
    source, destination = both
    save(source)
    checkpoint = listed(source, pointer=Pointer(path="run/latest", content=b"step-10"))
    destination.write("run/latest", b"step-20")
    copy(source, destination, checkpoint, move_pointer=False)
    assert destination.read("run/latest") == b"step-20"
    copy(source, destination, checkpoint)
    assert destination.read("run/latest") == b"step-10"


@pytest.mark.parametrize("web", [True, False], ids=["with WebHDFS", "without"])
def test_a_copy_goes_to_hdfs_and_on_to_hdfs(
    both: Both, hdfs_dir: str, hdfs: Cluster, web: bool
) -> None:
    source, _ = both
    config = HdfsConfig.from_environment({"HADOOP_CONF_DIR": str(hdfs.config_dir)} if web else {})
    big = {**FILES, "__0_0.distcp": bytes(range(256)) * 10_000}
    save(source, big, chunk_bytes=1_000_000)
    source.write("x/keep", b"")
    near = HdfsStorage(hdfs_dir, config)
    near.write("far/keep", b"")
    copy(source, near)
    far = HdfsStorage(f"{hdfs_dir}/far", config)
    copy(near, far)
    for storage in (near, far):
        assert {path: storage.read(f"{FOLDER}/{path}") for path in big} == big
    assert is_published(publication_of(near, far), far)
    save(near, OTHERS)
    copy(near, far, replace=True)
    assert content(far) == OTHERS
    assert [info.path for info in far.list(".headrace")] == []
    for storage in (near, far):
        storage.close()


class Died(BaseException):
    """Nobody handles it: the process is gone."""


class Faulty(LocalStorage):
    """A directory whose n-th change is the last thing that its process does, or was about to do."""

    def __init__(self, root: str, *, fail_at: int, after: bool = False) -> None:
        super().__init__(root)
        self._fail_at = fail_at
        self._after = after
        self._changes = 0
        self.seen: list[dict[str, bytes]] = []
        """What a reader saw before each change."""

    @property
    def ended(self) -> bool:
        """Whether there were not so many changes."""
        return self._changes < self._fail_at

    def write(self, path: str, data: bytes) -> FileInfo:
        with self._change():
            return super().write(path, data)

    def create(self, path: str) -> LocalWriter:
        with self._change():
            return super().create(path)

    def rename(self, source: str, target: str) -> None:
        with self._change():
            super().rename(source, target)

    def delete(self, path: str) -> None:
        with self._change():
            super().delete(path)

    def delete_folder(self, path: str) -> None:
        with self._change():
            super().delete_folder(path)

    @contextmanager
    def _change(self) -> Iterator[None]:
        self.seen.append(content(LocalStorage(self.url), "run"))
        self._changes += 1
        dies = self._changes == self._fail_at
        if dies and not self._after:
            raise Died
        yield
        if dies:
            raise Died


def visible(seen: dict[str, bytes]) -> dict[str, bytes]:
    return {
        path.removeprefix("step-10/"): data
        for path, data in seen.items()
        if path.startswith("step-10/")
    }


def crashes(
    source: Storage, publication: Publication, place: Path
) -> Iterator[tuple[LocalStorage, list[dict[str, bytes]]]]:
    """Publish to copies of a destination, killed at every change, then once more.

    Yields the destination as it is at the end, and all that a reader saw.
    """
    for after in (False, True):
        for fail_at in range(1, 200):
            root = place.with_name(f"{place.name}-{after}-{fail_at}")
            shutil.copytree(place, root)
            faulty = Faulty(str(root), fail_at=fail_at, after=after)
            with contextlib.suppress(Died):
                publish(publication, faulty, parallel=1)
            if faulty.ended:
                break
            again = Faulty(str(root), fail_at=0)
            publish(publication, again, parallel=1)
            last = LocalStorage(root)
            yield last, [*faulty.seen, *again.seen, content(last, "run")]
        else:
            pytest.fail("it never ends")


@pytest.mark.parametrize("replace", [False, True], ids=["new", "replaced"])
def test_killed_at_any_change_it_ends_the_same_and_was_never_seen_half(
    both: Both, replace: bool
) -> None:
    source, destination = both
    save(source)
    old = {**OTHERS, "__1_0.distcp": b"more"} if replace else {}
    if replace:
        save(destination, old)
    publication = publication_of(source, destination, replace=replace)
    stage(publication, source, destination)
    whole = 0
    for last, seen in crashes(source, publication, Path(destination.url)):
        complete = [visible(one) for one in seen if MARKER in visible(one)]
        assert all(one in (FILES, old) for one in complete)
        assert content(last) == FILES
        assert is_published(publication, last)
        assert not any(".headrace/" in info.path for info in last.list())
        whole += 1
    assert whole > 20


class EndsWithArriving(LocalStorage):
    """A directory whose process dies as soon as nothing is arriving there any more."""

    def delete(self, path: str) -> None:
        super().delete(path)
        if path.endswith(ARRIVING):
            raise KeyboardInterrupt


def test_what_is_complete_is_pointed_to_whenever_its_copier_dies(both: Both) -> None:
    source, destination = both
    save(source)
    checkpoint = listed(source, pointer=Pointer(path="run/latest", content=b"step-10"))
    with pytest.raises(KeyboardInterrupt):
        copy(source, EndsWithArriving(destination.url), checkpoint)
    assert destination.read("run/latest") == b"step-10"


@pytest.mark.parametrize("replace", [False, True], ids=["new", "replaced"])
def test_a_pointer_never_names_what_is_not_whole(both: Both, replace: bool) -> None:
    source, destination = both
    save(source)
    pointer = Pointer(path="run/latest", content=b"step-10")
    if replace:
        save(destination, OTHERS)
        destination.write("run/latest", b"step-10\n")
    checkpoint = listed(source, marker=None, pointer=pointer)
    publication = publication_of(source, destination, checkpoint, replace=replace)
    stage(publication, source, destination)
    for last, seen in crashes(source, publication, Path(destination.url)):
        named = [visible(one) for one in seen if "latest" in one]
        assert all(one in (FILES, OTHERS) for one in named)
        assert content(last) == FILES
        assert last.read("run/latest") == b"step-10"


def test_files_of_two_checkpoints_are_never_seen_together_even_without_a_marker(
    both: Both,
) -> None:
    source, destination = both
    save(source)
    save(destination, OTHERS)
    publication = publication_of(source, destination, listed(source, marker=None), replace=True)
    stage(publication, source, destination)
    for last, seen in crashes(source, publication, Path(destination.url)):
        for one in map(visible, seen):
            assert one.items() <= FILES.items() or one.items() <= OTHERS.items()
        assert content(last) == FILES


def test_a_copy_that_is_killed_for_real_goes_on(both: Both) -> None:
    """Processes that copy and publish are killed after ever more calls until one ends."""
    source, destination = both
    data = random.Random(5).randbytes(300_000)
    files = {f"__{n}_0.distcp": data[n:] for n in range(6)} | {MARKER: b"all"}
    save(source, files, chunk_bytes=50_000)
    checkpoint = listed(source, tuple(files))
    kills = 0
    while True:
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                die_after(100 << kills)
                copy(source, destination, checkpoint)
                os._exit(0)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        found = content(destination)
        assert MARKER not in found or found == files
        if status == 0:
            break
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        kills += 1
    assert kills > 3
    assert content(destination) == files
    assert not any(".headrace/" in info.path for info in destination.list())


def die_after(calls: int) -> None:
    """Let this process be killed when its threads have made so many calls together."""
    left = itertools.count(calls, -1)

    def count(*_: object) -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


class Watched(LocalStorage):
    """A directory that is looked at, and rid of old checkpoints, around each move and deletion."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.complete: list[dict[str, bytes]] = []
        """What was found to be complete at ``run/checkpoint-10``."""

    def rename(self, source: str, target: str) -> None:
        self._look()
        super().rename(source, target)
        self._look()

    def delete(self, path: str) -> None:
        super().delete(path)
        self._look()

    def _look(self) -> None:
        other = LocalStorage(self.url)
        prune(other, keep=1)
        for one in find_checkpoints(other):
            if one.path == HALF and one.complete:
                self.complete.append(content(other, HALF))


HALF = "run/checkpoint-10"
MODEL = b"\2\0\0\0\0\0\0\0{}"
TRAINED = {"config.json": b"{}", "model.safetensors": MODEL, "trainer_state.json": b"{}"}
PLAIN = {"a.safetensors": MODEL, "b.safetensors": MODEL, "c.safetensors": MODEL}


@pytest.mark.parametrize(
    ("files", "marker"), [(TRAINED, "trainer_state.json"), (PLAIN, None)], ids=["trained", "plain"]
)
@pytest.mark.parametrize("replace", [False, True], ids=["new", "replaced"])
def test_nobody_takes_what_is_just_appearing_for_whole_or_for_a_leftover(
    both: Both, files: dict[str, bytes], marker: str | None, replace: bool
) -> None:
    source, destination = both
    save(source, files, folder=HALF)
    old = {"old.safetensors": MODEL, "other.safetensors": MODEL}
    if replace:
        save(destination, old, folder=HALF)
    save(destination, files, folder="run/checkpoint-5")
    checkpoint = listed(source, tuple(files), folder=HALF, marker=marker)
    publication = publication_of(source, destination, checkpoint, replace=replace)
    stage(publication, source, destination)
    for path in Staging(destination, publication.route).look().files:
        os.utime(f"{destination.url}/{path}", (1e9, 1e9))
    watched = Watched(destination.url)
    publish(publication, watched, parallel=1)
    assert content(destination, HALF) == files
    assert watched.complete[-1] == files
    assert all(one in (old, files) for one in watched.complete)
    assert [one.path for one in find_checkpoints(destination) if one.complete] == [HALF]
