"""What a staging folder tells of a copy, and how files are cut and handed out."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest
from copies_for_tests import (
    FILES,
    FOLDER,
    MARKER,
    OTHERS,
    Taken,
    content,
    copy,
    listed,
    publication_of,
    save,
    stage,
    stores,
)

from headrace.checkpoint.layout import CheckpointFile
from headrace.checkpoint.manifest import CHUNK_BYTES, MANIFEST
from headrace.core.errors import NotFoundError, StorageError
from headrace.storage.local import LocalStorage
from headrace.storage.shaped import Shape, ShapedStorage
from headrace.transfer.chunk import copy_chunk
from headrace.transfer.group import PARALLEL, copy_group, grouped
from headrace.transfer.held import held_chunks, noted_at
from headrace.transfer.parallel import in_parallel
from headrace.transfer.plan import STAGING, Route, plan_file
from headrace.transfer.publishing import publish
from headrace.transfer.staging import Staging, remove_staged, staged_bytes

Both = tuple[LocalStorage, LocalStorage]


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return stores(tmp_path)


def file_of(size: int, *, path: str = "a", version: str = "1") -> CheckpointFile:
    return CheckpointFile(path=path, size=size, version=version, role="weights")


ROUTE = Route(source="/s", destination="/d", checkpoint=FOLDER)


def test_a_file_is_cut_into_chunks_that_are_the_whole_of_it() -> None:
    plan = plan_file(ROUTE, file_of(2 * CHUNK_BYTES + 1))
    assert [(task.offset, task.length) for task in plan.tasks] == [
        (0, CHUNK_BYTES),
        (CHUNK_BYTES, CHUNK_BYTES),
        (2 * CHUNK_BYTES, 1),
    ]
    assert {task.path for task in plan.tasks} == {f"{FOLDER}/a"}
    assert [task.length for task in plan_file(ROUTE, file_of(0)).tasks] == [0]


def test_another_file_version_store_or_cut_is_staged_elsewhere() -> None:
    files = [file_of(5), file_of(5, path="b"), file_of(5, version="2"), file_of(6)]
    keys = {plan_file(ROUTE, file).key for file in files}
    other = Route(source="/other", destination="/d", checkpoint=FOLDER)
    assert len(keys | {plan_file(other, file_of(5)).key}) == 5


@pytest.mark.parametrize("name", ["step=10,loss=2,5", "é" * 300, "a b", "", "..x"])
def test_any_name_of_a_checkpoint_makes_a_folder_of_its_own(name: str) -> None:
    folder = Route(source="/s", destination="/d", checkpoint=name).staging
    assert folder.startswith(f"{STAGING}/")
    assert len(folder.split("/")) == 3
    assert folder.isascii()
    assert "," not in folder
    assert folder != Route(source="/s", destination="/d", checkpoint=f"{name}x").staging


def test_groups_keep_to_their_limits_and_order() -> None:
    tasks = [task for n in range(10) for task in plan_file(ROUTE, file_of(n, path=str(n))).tasks]
    groups = list(grouped(tasks, most_bytes=10, most_tasks=4))
    assert [task for group in groups for task in group] == tasks
    assert [[task.length for task in group] for group in groups] == [
        [0, 1, 2, 3],
        [4, 5],
        [6],
        [7],
        [8],
        [9],
    ]
    assert list(grouped([])) == []


def test_what_is_staged_is_found_by_whoever_looks(both: Both) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    look = Staging(destination, publication.route).look
    assert len(look().missing(publication.plans)) == 9
    first = publication.plans[0].tasks[0]
    done = copy_chunk(first, source, destination, Taken())
    assert look().part(first) == done.part
    assert len(look().missing(publication.plans)) == 8
    stage(publication, source, destination)
    assert look().missing(publication.plans) == ()


@pytest.mark.parametrize("damage", [b"", b"0123456"])
def test_a_staged_chunk_of_another_length_does_not_count(both: Both, damage: bytes) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    task = publication.plans[0].tasks[0]
    done = copy_chunk(task, source, destination, Taken())
    destination.write(done.part, damage)
    assert task in Staging(destination, publication.route).look().missing(publication.plans)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_copies_of_a_chunk_that_differ_the_later_counts_unless_the_digest_is_known(
    both: Both, order: int
) -> None:
    source, destination = both
    save(source, chunk_bytes=None)
    publication = publication_of(source, destination)
    task = publication.plans[0].tasks[0]
    for digit, written_at in zip("12"[::order], (1e9, 2e9), strict=True):
        part = f"{task.staged}-{digit * 32}"
        destination.write(part, b"9876543210")
        os.utime(f"{destination.url}/{part}", (written_at, written_at))
    staged = Staging(destination, publication.route).look()
    assert staged.digest(task) == ("2" if order == 1 else "1") * 32
    for digit in "12":
        known = msgspec.structs.replace(task, digest=digit * 32)
        assert staged.part(known) == f"{task.staged}-{digit * 32}"
    assert staged.part(msgspec.structs.replace(task, digest="3" * 32)) is None


def test_what_is_of_no_use_goes_with_the_folder(both: Both) -> None:
    source, destination = both
    save(source)
    stage(publication_of(source, destination), source, destination)
    save(source, {**FILES, MARKER: b"newer"})
    newer = publication_of(source, destination)
    destination.write(f"{newer.route.staging}/leftover", b"")
    assert len(Staging(destination, newer.route).look().missing(newer.plans)) == 7
    stage(newer, source, destination)
    publish(newer, destination)
    assert list(destination.list(STAGING)) == []


def test_what_is_staged_is_told_and_can_be_removed_copy_by_copy(both: Both) -> None:
    source, destination = both
    for folder in ("run/step-10", "run/step-20"):
        save(source, folder=folder)
        publication = publication_of(source, destination, listed(source, folder=folder))
        stage(publication, source, destination)
    first, second = sorted(staged_bytes(destination))
    assert second == publication.route.staging
    assert staged_bytes(destination)[second] == sum(plan.file.size for plan in publication.plans)
    remove_staged(destination, first)
    assert list(staged_bytes(destination)) == [second]
    assert Staging(destination, publication.route).look().missing(publication.plans) == ()
    assert staged_bytes(LocalStorage(source.url)) == {}


def test_chunks_that_an_earlier_checkpoint_has_are_not_sent_again(both: Both) -> None:
    source, destination = both
    save(source)
    copy(source, destination)
    later = {**FILES, MARKER: b"another", "__0_0.distcp": b"0123456X89"}
    save(source, later, folder="run/step-20")
    held = held_chunks(destination, ["run/step-10", "run/step-15"])
    checkpoint = listed(source, folder="run/step-20")
    publication = publication_of(source, destination, checkpoint, held=held)
    taken = Taken()
    stage(publication, source, destination, taken)
    assert taken.nbytes == len(b"456X") + len(b"another")
    publish(publication, destination)
    assert content(destination, "run/step-20") == later


def test_without_a_manifest_at_the_source_all_is_sent(both: Both) -> None:
    source, destination = both
    save(source)
    copy(source, destination)
    save(source, folder="run/step-20", chunk_bytes=None)
    held = held_chunks(destination, ["run/step-10"])
    checkpoint = listed(source, folder="run/step-20")
    publication = publication_of(source, destination, checkpoint, held=held)
    taken = Taken()
    stage(publication, source, destination, taken)
    assert taken.nbytes == sum(map(len, FILES.values()))


def test_a_manifest_of_what_was_replaced_by_something_else_does_not_count(both: Both) -> None:
    source, destination = both
    save(source)
    for path, data in OTHERS.items():
        source.write(f"{FOLDER}/{path}", data)
    copy(source, destination)
    assert content(destination) == OTHERS


def test_a_damaged_manifest_is_as_good_as_none(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    source, _ = both
    save(source)
    source.write(f"{FOLDER}/{MANIFEST}", b"{")
    assert noted_at(source, FOLDER).files == {}
    assert held_chunks(source, [FOLDER]) == {}
    assert "no manifest" in caplog.text


def test_round_trips_of_small_files_overlap(both: Both) -> None:
    source, destination = both
    files = {f"{n}": b"x" for n in range(40)}
    save(source, files)
    publication = publication_of(source, destination, listed(source, tuple(files)))
    meeting = threading.Barrier(PARALLEL)  # none ends before so many have begun
    far = ShapedStorage(source, Shape(latency_s=0.02), sleep=lambda _: meeting.wait(30))
    groups = list(grouped(task for plan in publication.plans for task in plan.tasks))
    assert len(groups) == 1
    done = copy_group(groups[0], far, destination, Taken())
    assert [one.nbytes for one in done] == [1] * 40


def test_a_group_ends_with_its_first_failure_and_keeps_what_was_done(both: Both) -> None:
    source, destination = both
    save(source)
    publication = publication_of(source, destination)
    tasks = [task for plan in publication.plans for task in plan.tasks]
    source.delete(f"{FOLDER}/sub/tiny")
    with pytest.raises(NotFoundError, match="tiny"):
        copy_group(tasks, source, destination, Taken())
    staged = Staging(destination, publication.route).look()
    assert len(staged.missing(publication.plans)) < len(tasks)


def test_after_a_failure_nothing_more_is_begun_and_nothing_runs_on() -> None:
    running, most, calls = 0, 0, []
    lock = threading.Lock()

    def work(n: int) -> int:
        nonlocal running, most
        with lock:
            calls.append(n)
            running += 1
            most = max(most, running)
        try:
            if n == 5:
                raise StorageError("away")
            if n > 5:
                time.sleep(0.01)  # a thread must not end all before the failure is looked at
            return n * n
        finally:
            with lock:
                running -= 1

    assert in_parallel(work, range(4), width=3) == [0, 1, 4, 9]
    with pytest.raises(StorageError, match="away"):
        in_parallel(work, range(1000), width=3)
    assert running == 0
    assert most <= 3
    assert len(calls) < 1000
