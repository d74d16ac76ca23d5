"""What people ask for holds when it is answered: for this process, and for the next one."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from roots_for_tests import replicating, save_checkpoint, wanted

from headrace.controller.journal import Journal
from headrace.transfer.plan import Route
from waiting import eventually


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.mkdir()
    destination.mkdir()
    return source, destination


def rows_after_a_kill(journal: Path, aside: Path) -> int:
    """Return how many replications the next process would find if this one died now."""
    aside.mkdir()
    for file in journal.parent.glob(f"{journal.name}*"):
        shutil.copy(file, aside)
    with closing(Journal(aside / journal.name)) as found:
        return len(found.kept.documents["replication"])


def test_what_was_begun_or_ended_survives_a_kill_right_after_the_answer(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    journal = tmp_path / "kept/journal.db"
    journal.parent.mkdir()
    with replicating(journal) as running:
        running.begin("r", wanted(*roots))
        assert rows_after_a_kill(journal, tmp_path / "begun") == 1
        running.end("r")
        assert rows_after_a_kill(journal, tmp_path / "ended") == 0


def test_what_is_ended_next_is_known_to_have_begun(roots: tuple[Path, Path]) -> None:
    with replicating() as running:
        with running._lock:  # its thread handles nothing meanwhile
            running.begin("r", wanted(*roots))
            running.begin("r", wanted(*roots, keep=3))
            assert running._replicator.pairs["r"].terms.keep == 3
        running.end("r")
        assert list(running._replicator.pairs) == []


def test_nothing_is_remembered_of_checkpoints_that_are_done(roots: tuple[Path, Path]) -> None:
    source, _ = roots
    for step in (100, 200, 300):
        save_checkpoint(source, step)
    with replicating() as running:
        running.begin("r", wanted(*roots, once=True))
        eventually(lambda: running.view("r").over)
        crew = running._crew
        eventually(lambda: not crew.is_busy("r"))
        assert (crew._jobs, crew._takers, crew._moved) == ({}, {}, {})


def test_what_is_done_once_is_done_again_when_it_is_asked_for_again(
    roots: tuple[Path, Path],
) -> None:
    source, _ = roots
    with replicating() as running:
        for count, step in enumerate((100, 200), start=1):
            save_checkpoint(source, step)
            running.begin("r", wanted(*roots, once=True))
            eventually(lambda: running.view("r").over)
            view = running.view("r")
            assert [one.state for one in view.checkpoints] == ["published"] * count


def test_what_was_done_once_keeps_nobody_from_the_destination(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    with replicating() as first, replicating() as second:
        first.begin("r", wanted(*roots, once=True))
        eventually(lambda: first.view("r").over)
        eventually(lambda: not list((destination / ".headrace/replicators").glob("*.json")))
        second.begin("other", wanted(*roots))
        assert first.view("r").over


def test_what_a_copier_that_died_at_the_end_left_is_removed(roots: tuple[Path, Path]) -> None:
    source, destination = roots
    save_checkpoint(source, 100)
    route = Route(source=str(source), destination=str(destination), checkpoint="checkpoint-100")
    for _ in range(2):
        with replicating() as running:
            running.begin("r", wanted(*roots, once=True))
            eventually(lambda: running.view("r").over)
        left = destination / route.staging / "left"
        assert not left.exists()
        left.parent.mkdir(parents=True)
        left.write_bytes(b"of its last write")
