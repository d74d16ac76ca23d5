"""Whole replications between real directories, with real threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import torch
from roots_for_tests import (
    MARKER,
    content,
    replicating,
    save_checkpoint,
    save_shards,
    state_of,
    wait_over,
    wanted,
)

from headrace.checkpoint.pinning import pin
from headrace.checkpoint.pins import new_lease, put_pin, remove_pin
from headrace.checkpoint.retention import prune
from headrace.controller.journal import Journal
from headrace.controller.replicating.destination import require_apart
from headrace.controller.replicating.way import Way
from headrace.core.errors import CallerError, NotFoundError, StorageError
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage
from headrace.storage.port import FileInfo, Storage
from headrace.transfer.group import copy_group
from headrace.wire.replication import SIGNALS, SignalSent
from waiting import eventually


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    destination.mkdir()
    return source, destination


def stage(way: Way, checkpoint: str, *files: str) -> None:
    """Send files of a checkpoint."""
    for chunk in way.prepare(checkpoint, files).chunks:
        tasks = way.tasks(checkpoint, chunk.key)
        copy_group(tasks, way.source, way.destination, lambda _: None)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB; skipped where this user may not mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "headrace-test", str(place)]
    if subprocess.run(mount, capture_output=True, check=False, timeout=10).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=10)


def test_once_copies_all_that_is_complete(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    saved = [save_checkpoint(source, step) for step in (100, 200)]
    save_shards(source, 300)
    with replicating() as running:
        running.begin("r", wanted(source, destination, once=True))
        view = wait_over(running, "r", 20.0)
    assert view.over
    for folder in saved:
        assert content(destination / folder.name) == content(folder)
    assert state_of(view, 300)[0] == "skipped"
    assert not (destination / "checkpoint-300").exists()
    assert list((destination / ".headrace").rglob("*.*")) == []


def test_a_checkpoint_is_copied_while_it_is_written_and_appears_with_its_marker(
    roots: tuple[Path, Path],
) -> None:
    source, destination = roots
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        folder = save_shards(source, 100)
        eventually(lambda: any(one.sent_bytes > 60_000 for one in running.view("r").checkpoints))
        assert not (destination / "checkpoint-100").exists()
        (folder / MARKER).write_text("{}")
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
    assert content(destination / "checkpoint-100") == content(folder)


def test_what_was_staged_is_not_sent_again_after_a_restart(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    folder = save_shards(source, 100, nbytes=200_000)
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: any(one.here_bytes > 600_000 for one in running.view("r").checkpoints))
    assert list((destination / ".headrace/staging").rglob("*"))
    with replicating() as running:
        (folder / MARKER).write_text("{}")
        running.begin("r", wanted(source, destination, once=True))
        view = wait_over(running, "r", 20.0)
    assert view.checkpoints[0].state == "published"
    assert view.checkpoints[0].sent_bytes < 1000
    assert content(destination / folder.name) == content(folder)


def test_a_second_process_is_kept_from_the_same_destination(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    with replicating() as first, replicating() as second:
        first.begin("r", wanted(source, destination))
        with pytest.raises(CallerError, match="is copied to by process"):
            second.begin("other", wanted(source, destination))
        with pytest.raises(CallerError, match="is copied to by process"):
            first.begin("twice", wanted(source, destination))
        first.end("r")
        second.begin("other", wanted(source, destination))


def test_a_checkpoint_deleted_while_it_is_copied_is_given_up(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    folder = save_checkpoint(source, 100, shards=6, nbytes=1 << 20)
    with replicating(bytes_per_s=1 << 20) as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: any(one.sent_bytes for one in running.view("r").checkpoints))
        shutil.rmtree(folder)
        eventually(lambda: not running.view("r").checkpoints)
        eventually(lambda: not list((destination / ".headrace/staging").rglob("*-*")))
        save_checkpoint(source, 200)
        eventually(lambda: state_of(running.view("r"), 200)[0] == "published")
    assert not (destination / "checkpoint-100").exists()


class TestASourceWhoseRetentionGoesOn:
    """It keeps the newest checkpoint only."""

    def test_leaves_what_is_copied_until_it_arrived(self, roots: tuple[Path, Path]) -> None:
        source, destination = roots
        folder = save_checkpoint(source, 100, shards=6, nbytes=1 << 20)
        before = content(folder)
        with closing(Way("r", LocalStorage(source), LocalStorage(destination))) as way:
            way.look(0.0)
            stage(way, folder.name, *sorted(before)[:3])
        with replicating(bytes_per_s=3 << 20) as running:
            running.begin("r", wanted(source, destination))
            eventually(lambda: any(one.sent_bytes for one in running.view("r").checkpoints))
            save_checkpoint(source, 200)
            assert prune(LocalStorage(source), keep=1).read == ("checkpoint-100",)
            eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
            assert prune(LocalStorage(source), keep=1).removed == ("checkpoint-100",)
        assert content(destination / "checkpoint-100") == before

    def test_is_not_held_up_by_what_is_not_copied_any_more(self, roots: tuple[Path, Path]) -> None:
        source, destination = roots
        save_checkpoint(source, 100, shards=6, nbytes=1 << 20)
        with replicating(bytes_per_s=1 << 20) as running:
            running.begin("r", wanted(source, destination))
            eventually(lambda: any(one.sent_bytes for one in running.view("r").checkpoints))
            save_checkpoint(source, 200)
            eventually(lambda: state_of(running.view("r"), 100)[0] == "skipped")
            eventually(lambda: prune(LocalStorage(source), keep=1).removed != ())

    def test_is_not_held_up_by_one_that_ended(self, roots: tuple[Path, Path]) -> None:
        source, destination = roots
        save_checkpoint(source, 100, shards=6, nbytes=1 << 20)
        with replicating(bytes_per_s=1 << 20) as running:
            running.begin("r", wanted(source, destination))
            eventually(lambda: any(one.sent_bytes for one in running.view("r").checkpoints))
        save_checkpoint(source, 200)
        eventually(lambda: prune(LocalStorage(source), keep=1).removed != ())

    def test_may_be_closed_to_who_copies(self, roots: tuple[Path, Path]) -> None:
        source, destination = roots
        save_checkpoint(source, 100)

        class ReadOnly(LocalStorage):
            def write(self, path: str, data: bytes) -> FileInfo:
                raise StorageError(f"{path} cannot be written; ask whose it is")

        def opened(url: str) -> Storage:
            return ReadOnly(url) if url == str(source) else open_storage(url)

        with replicating(open_store=opened) as running:
            running.begin("r", wanted(source, destination, once=True))
            assert state_of(wait_over(running, "r", 20.0), 100)[0] == "published"


def test_a_source_that_vanishes_is_waited_for(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    aside = source.with_name("aside")
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: running.view("r").listed)
        source.rename(aside)
        eventually(lambda: "no such file" in running.view("r").down)
        aside.rename(source)
        save_checkpoint(source, 100)
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
        assert running.view("r").down == ""


def test_what_is_to_be_done_once_ends_though_its_source_vanished(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    save_checkpoint(source, 100, nbytes=4 << 20)
    with replicating(bytes_per_s=1 << 20) as running:
        running.begin("r", wanted(source, destination, once=True))
        eventually(lambda: running.view("r").listed)
        shutil.rmtree(source)
        view = wait_over(running, "r", 20.0)
    assert view.over
    assert "no such file" in view.down


def test_garbage_is_given_up_and_an_older_one_copied(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    good = save_checkpoint(source, 100)
    bad = save_checkpoint(source, 200)
    (bad / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    with replicating() as running:
        running.begin("r", wanted(source, destination, once=True))
        view = wait_over(running, "r", 20.0)
    states = {one.checkpoint: one.state for one in view.checkpoints}
    assert states == {"checkpoint-100": "published", "checkpoint-200": "given-up"}
    assert content(destination / good.name) == content(good)
    assert not (destination / "checkpoint-200").exists()


def test_names_that_are_no_text_are_given_up_and_others_copied(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    good = save_checkpoint(source, 100)
    (save_checkpoint(source, 200) / os.fsdecode(b"notes-\xff.txt")).write_text("latin")
    save_checkpoint(source, 300).rename(source / os.fsdecode(b"\xff-checkpoint-300"))
    with replicating() as running:
        running.begin("r", wanted(source, destination, once=True))
        view = wait_over(running, "r", 20.0)
    states = {one.checkpoint: (one.state, one.reason) for one in view.checkpoints}
    assert states["checkpoint-100"][0] == "published"
    assert states["checkpoint-200"][0] == "given-up"
    assert r"notes-\xff.txt" in states["checkpoint-200"][1]
    assert states[r"\xff-checkpoint-300"][0] == "given-up"
    assert content(destination / good.name) == content(good)


def test_a_store_that_fails_in_an_unknown_way_is_told_and_looked_at_again(
    roots: tuple[Path, Path],
) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    strange = [True]

    class Strange(LocalStorage):
        def list(self, folder: str = "") -> Iterator[FileInfo]:
            if strange:
                raise RuntimeError("it is full moon")
            return super().list(folder)

    def opened(url: str) -> Storage:
        return Strange(url) if url == str(source) else open_storage(url)

    with replicating(open_store=opened) as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: "full moon" in running.view("r").down)
        strange.clear()
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")


def test_what_an_earlier_process_sent_little_of_does_not_stay_staged(
    roots: tuple[Path, Path],
) -> None:
    """Of 100 nothing but one shard of six lies there when a newer one makes it unwanted."""
    source, destination = roots
    save_checkpoint(source, 100, shards=6)
    with closing(Way("r", LocalStorage(source), LocalStorage(destination))) as way:
        way.look(0.0)
        stage(way, "checkpoint-100", "model-00001-of-00006.safetensors")
    assert list((destination / ".headrace/staging").rglob("*-*"))
    save_checkpoint(source, 200)
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: state_of(running.view("r"), 200)[0] == "published")
        eventually(lambda: not list((destination / ".headrace/staging").rglob("*-*")))
        assert state_of(running.view("r"), 100)[0] == "skipped"


def test_another_checkpoint_of_the_same_name_is_left_alone(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    mine = save_checkpoint(destination, 100, shards=1)
    before = content(mine)
    with replicating() as running:
        running.begin("r", wanted(source, destination, once=True))
        view = wait_over(running, "r", 20.0)
    assert state_of(view, 100)[0] == "given-up"
    assert "another checkpoint" in state_of(view, 100)[1]
    assert content(mine) == before


def test_one_that_is_written_anew_replaces_its_copy_when_nobody_reads_that(
    roots: tuple[Path, Path],
) -> None:
    source, destination = roots
    save_checkpoint(destination, 100, shards=2)
    copy = destination / "checkpoint-100"
    before = content(copy)
    anew = save_checkpoint(source, 100, shards=3, nbytes=30_000)
    with pin(copy), replicating() as running:
        running.begin("r", wanted(source, destination, replace=True))
        eventually(lambda: "is read by" in state_of(running.view("r"), 100)[1])
        assert content(copy) == before
    with replicating() as running:
        running.begin("r", wanted(source, destination, replace=True, once=True))
        assert state_of(wait_over(running, "r", 20.0), 100)[0] == "published"
    assert content(copy) == content(anew)
    with pin(copy):
        pass


def test_what_was_copied_before_is_not_copied_again(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    for _ in range(2):
        with replicating() as running:
            running.begin("r", wanted(source, destination, once=True))
            view = wait_over(running, "r", 20.0)
    assert state_of(view, 100) == ("published", "the destination had it")
    assert view.checkpoints[0].sent_bytes == 0


def test_a_full_destination_is_waited_for(roots: tuple[Path, Path], small_disk: Path) -> None:
    source, _ = roots
    filler = small_disk / "filler"
    filler.write_bytes(bytes(3 << 20))
    folder = save_checkpoint(source, 100, nbytes=500_000)
    with replicating() as running:
        running.begin("r", wanted(source, small_disk))
        eventually(lambda: "disk is full" in state_of(running.view("r"), 100)[1])
        assert not (small_disk / "checkpoint-100").exists()
        filler.unlink()
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
    assert content(small_disk / folder.name) == content(folder)


def test_a_replication_of_the_journal_goes_on_and_knows_what_was_urgent(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    source, destination = roots
    journal = tmp_path / "journal.db"
    save_checkpoint(source, 100, nbytes=4 << 20)
    with replicating(journal, bytes_per_s=1 << 20) as running:
        began = running.begin("r", wanted(source, destination, keep=5))
        eventually(lambda: running.view("r").listed)
        assert running.signal(SignalSent(kind="loss_spike", step=100)).replications == ("r",)
        eventually(lambda: bool(running.view("r").checkpoints[0].urgent))
    with replicating(journal, bytes_per_s=1 << 20) as running:
        eventually(lambda: bool(running.view("r").checkpoints))
        eventually(lambda: running.view("r").checkpoints[0].urgent == "loss_spike at step 100")
        assert running.view("r").wanted == began.wanted
        assert running.view("r").since_at == began.since_at
        running.end("r")
    with replicating(journal) as running:
        assert running.views() == ()


def test_one_of_the_journal_that_cannot_begin_is_tried_again(
    roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, destination = roots
    monkeypatch.setattr("headrace.controller.replicating.replicating.RETRY_S", 0.05)
    with replicating(tmp_path / "journal.db") as running:
        running.begin("r", wanted(source, destination))
    source.rename(source.with_name("aside"))
    with replicating(tmp_path / "journal.db") as running:
        eventually(lambda: "no directory at" in running.view("r").down)
        source.mkdir()
        eventually(lambda: running.view("r").listed)


@pytest.mark.parametrize(("one", "other"), [("", ""), ("", "copies"), ("copies", "")])
def test_a_root_in_the_other_is_refused(tmp_path: Path, one: str, other: str) -> None:
    """Else ``keep`` would remove the source's own checkpoints."""
    (tmp_path / "copies").mkdir()
    save_checkpoint(tmp_path, 100)
    with replicating() as running:
        with pytest.raises(CallerError, match="a root of their own"):
            running.begin("r", wanted(tmp_path / one, tmp_path / other, keep=1))
        assert running.views() == ()


def test_hdfs_roots_in_each_other_are_known_however_they_are_written() -> None:
    with pytest.raises(CallerError, match="a root of their own"):
        require_apart("hdfs://nn:8020/ckpt", "hdfs://nn/ckpt//eval/")
    require_apart("hdfs://nn:8020/ckpt", "hdfs://nn:8020/ckpt-eval")
    require_apart("hdfs://nn:8020/ckpt", "/ckpt")


def test_terms_may_change_and_roots_may_not(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        view = running.begin("r", wanted(source, destination, evaluate_every_steps=200))
        assert view.wanted.evaluate_every_steps == 200
        with pytest.raises(CallerError, match="end it first"):
            running.begin("r", wanted(destination, source))
        with pytest.raises(CallerError, match="keep=0"):
            running.begin("r", wanted(source, destination, keep=0))
        with pytest.raises(NotFoundError, match="there are: r"):
            running.end("nobody")


def test_a_signal_in_the_root_is_heard_once(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
        signals = source / SIGNALS
        signals.mkdir(parents=True)
        (signals / "broken.json").write_text("{")
        (signals / "old.json").write_bytes(
            msgspec.json.encode(SignalSent(kind="old", step=100, sent_at=time.time() - 7200))
        )
        (signals / "new").write_bytes(
            msgspec.json.encode(SignalSent(kind="quality_drop", step=100, sent_at=time.time()))
        )
        (signals / "new").rename(signals / "new.json")
        save_checkpoint(source, 200)
        eventually(lambda: state_of(running.view("r"), 200)[0] == "published")
        (last,) = (one for one in running.view("r").checkpoints if one.step == 200)
    assert last.urgent == "quality_drop at step 100"


def test_so_many_are_kept_and_one_that_is_read_until_it_is_not(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    store = LocalStorage(destination)
    with replicating() as running:
        running.begin("r", wanted(source, destination, keep=1))
        for step in (100, 200, 300):
            save_checkpoint(source, step)
            eventually((destination / f"checkpoint-{step}" / MARKER).exists)
            if step == 200:
                put_pin(store, "checkpoint-200", new_lease("evaluator"))
                eventually(lambda: not (destination / "checkpoint-100").exists())
        time.sleep(0.5)
        assert (destination / "checkpoint-200" / MARKER).exists()
        remove_pin(store, "checkpoint-200", "evaluator")
        eventually(lambda: not (destination / "checkpoint-200").exists())
        assert (destination / "checkpoint-300" / MARKER).exists()


def test_evaluations_are_learnt_from_pins(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    store = LocalStorage(destination)
    save_checkpoint(source, 100)
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        eventually((destination / "checkpoint-100" / MARKER).exists)
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
        period_s = None
        for number in range(20):
            put_pin(store, "checkpoint-100", new_lease(f"evaluator-{number}"))
            time.sleep(0.5)
            period_s = running.view("r").evaluation_period_s or period_s
            if period_s is not None:
                break
    assert period_s is not None
    assert 0.2 < period_s < 5.0


class Freezing(LocalStorage):
    """A directory behind a link that may freeze; reads then end with an error after a while."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.is_frozen = False

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if self.is_frozen:
            time.sleep(0.3)
            raise StorageError(f"{path}: no answer within 0.3 s")
        return super().read(path, offset, length)


def test_a_link_that_freezes_is_waited_for(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    opened: dict[str, Freezing] = {}

    def open_store(url: str) -> Freezing:
        return opened.setdefault(url, Freezing(url))

    folder = save_checkpoint(source, 100, shards=4, nbytes=2 << 20)
    with replicating(bytes_per_s=4 << 20, open_store=open_store) as running:
        running.begin("r", wanted(source, destination))
        eventually(lambda: any(one.sent_bytes > 0 for one in running.view("r").checkpoints))
        opened[str(source)].is_frozen = True
        eventually(lambda: "no answer within" in state_of(running.view("r"), 100)[1])
        opened[str(source)].is_frozen = False
        eventually(lambda: state_of(running.view("r"), 100)[0] == "published")
    assert content(destination / folder.name) == content(folder)


def test_a_row_that_cannot_be_read_keeps_nobody_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.db"
    with closing(Journal(path)) as journal:
        journal.put("replication", "later", SignalSent(kind="of another form"))
    with replicating(path) as running:
        assert running.views() == ()
    assert "ReplicationRow that cannot be read" in caplog.text


def test_the_pointer_never_moves_back(roots: tuple[Path, Path]) -> None:
    """The newer one arrives first, and the last look at the destination knows of neither."""
    source, destination = roots
    for step in (100, 200):
        folder = source / f"iter_{step:07}/mp_rank_00"
        folder.mkdir(parents=True)
        torch.save({"iteration": step}, folder / "model_optim_rng.pt")
    (source / "latest_checkpointed_iteration.txt").write_text("200")
    with closing(Way("r", LocalStorage(source), LocalStorage(destination))) as way:
        way.look(0.0)
        for path in ("iter_0000200", "iter_0000100"):
            stage(way, path, "mp_rank_00/model_optim_rng.pt")
            way.publish(path)
    assert (destination / "latest_checkpointed_iteration.txt").read_text() == "200"
    assert (destination / "iter_0000100/mp_rank_00/model_optim_rng.pt").exists()


def test_each_run_below_a_root_has_a_pointer_of_its_own(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    for run, step in (("a", 900), ("b", 100)):
        folder = source / run / f"iter_{step:07}/mp_rank_00"
        folder.mkdir(parents=True)
        torch.save({"iteration": step}, folder / "model_optim_rng.pt")
        (source / run / "latest_checkpointed_iteration.txt").write_text(str(step))
    with replicating() as running:
        running.begin("r", wanted(source, destination))
        pointers = [destination / run / "latest_checkpointed_iteration.txt" for run in "ab"]
        eventually(lambda: all(pointer.exists() for pointer in pointers))
    assert [pointer.read_text() for pointer in pointers] == ["900", "100"]
