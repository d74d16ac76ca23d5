"""The desk of hotspots, over a store in memory: records, restarts, trouble."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hotspots_for_tests import MemoryCarrier, MemoryStore, asked

from headrace.controller.hotspots import keeper
from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.hotspots.leases import MOST_LEASES, REMEMBERED
from headrace.controller.hotspots.rows import read_rows
from headrace.controller.journal import Journal
from headrace.controller.metrics import _of_hotspots
from headrace.core.errors import CallerError, NotFoundError, StorageError
from headrace.policy.hotspot.events import HotFile
from headrace.wire.hotspots import HotspotAsked
from waiting import eventually

OpenDesk = Callable[..., HotspotDesk]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "BUSY_S", 0.01)
    monkeypatch.setattr(keeper, "QUIET_S", 0.05)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def open_desk(store: MemoryStore) -> Iterator[OpenDesk]:
    opened: list[HotspotDesk] = []
    journals: list[Journal] = []

    def open_one(path: Path | None, later_s: float = 0.0) -> HotspotDesk:
        journals.append(Journal(path))
        opened.append(
            HotspotDesk(
                journals[-1],
                read=store.read,
                opened=store.opened,
                wall=lambda: time.time() + later_s,
            )
        )
        return opened[-1]

    yield open_one
    store.away = False
    for desk in opened:
        desk.close()
    for journal in journals:
        journal.close()


def held(desk: HotspotDesk, name: str) -> bool:
    desk.tick()
    return desk.view(name).state == "held"


def rows_of(path: Path) -> int:
    """Return how many rows a journal has that nobody has open."""
    with closing(Journal(path)) as journal:
        rows = read_rows(journal.kept.documents["lease"])
        return len(rows.leases) + len(rows.files)


def crash(path: Path, to: Path) -> Path:
    """Return the files of a journal as they would be found if its process died now."""
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, to.with_name(file.name.replace(path.name, to.name)))
    return to


def test_an_announcement_is_answered_before_its_checkpoint_is_read(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    desk = open_desk(tmp_path / "j.db")
    store.hangs = threading.Event()
    view = desk.announce(asked("a", "b", job="llm"))
    assert (view.state, view.kept, view.job) == ("planning", True, "llm")
    store.hangs.set()
    eventually(lambda: held(desk, view.id))
    assert store.copies == {"a": 20, "b": 20}
    told = desk.view(view.id)
    assert told.ready_share == 1.0
    assert {(file.path, file.original, file.wanted, file.live) for file in told.files} == {
        ("a", 3, 20, 20),
        ("b", 2, 20, 20),
    }
    assert [one.id for one in desk.views().hotspots] == [view.id]


def test_released_copies_are_given_back_and_nothing_is_left(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    desk = open_desk(tmp_path / "j.db")
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    desk.release(name)
    eventually(lambda: desk.view(name).state == "gone")
    assert store.copies["a"] == 3
    assert desk.release(name).state == "gone"
    assert desk.is_idle()
    assert desk.views().hotspots == ()


def test_a_checkpoint_that_cannot_be_read_fails_with_its_reason(open_desk: OpenDesk) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("nowhere")).id
    eventually(lambda: desk.view(name).state == "failed")
    assert desk.view(name).reason == "no file nowhere; check the spelling"
    assert desk.views().hotspots == ()


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(
    open_desk: OpenDesk, store: MemoryStore
) -> None:
    desk = open_desk(None)
    view = desk.plan(asked("a"))
    assert (view.state, view.files[0].wanted, view.files[0].original) == ("intended", 20, 3)
    assert store.sets == []
    assert desk.is_idle()
    held_name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, held_name))
    assert desk.plan(asked("a")).files[0].original == 3
    with pytest.raises(NotFoundError):
        desk.plan(asked("nowhere"))


def test_a_lease_ends_in_time_and_is_renewed_from_now(
    open_desk: OpenDesk, store: MemoryStore
) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("a", lease_s=1.0)).id
    eventually(lambda: held(desk, name))
    assert 50 < desk.renew(name, 60.0).expires_in_s <= 60.0
    assert desk.renew(name, 1.0).expires_in_s <= 1.0
    eventually(lambda: (desk.tick(), desk.view(name).state == "gone")[1])
    assert store.copies["a"] == 3
    with pytest.raises(NotFoundError, match="it is over"):
        desk.renew(name, 1.0)


def test_without_a_journal_all_is_given_back_at_the_end(
    open_desk: OpenDesk, store: MemoryStore
) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    assert not desk.view(name).kept
    desk.close()
    assert store.copies["a"] == 3


def test_with_a_journal_copies_stay_and_the_next_start_goes_on(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "j.db"
    desk = open_desk(path)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    again = open_desk(crash(path, tmp_path / "again.db"))
    eventually(lambda: held(again, name))
    assert store.copies["a"] == 20
    again.release(name)
    eventually(lambda: store.copies["a"] == 3)


def test_a_start_long_after_gives_back_at_once_what_nobody_holds(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "j.db"
    desk = open_desk(path)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    again = open_desk(crash(path, tmp_path / "again.db"), later_s=3600.0)
    eventually(lambda: store.copies["a"] == 3 and again.is_idle())
    assert again.view(name).state == "gone"
    again.close()


def test_a_clock_that_was_set_back_makes_no_lease_longer(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "j.db"
    desk = open_desk(path)
    name = desk.announce(asked("a", lease_s=5.0)).id
    eventually(lambda: held(desk, name))
    again = open_desk(crash(path, tmp_path / "again.db"), later_s=-86400.0)
    assert again.view(name).expires_in_s <= 5.0


def test_an_announcement_that_was_not_read_yet_is_read_after_a_restart(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    store.hangs = threading.Event()
    path = tmp_path / "j.db"
    desk = open_desk(path)
    name = desk.announce(asked("a")).id
    assert desk.unwritten() == ""
    crashed = crash(path, tmp_path / "again.db")
    desk.close()
    store.hangs.set()
    again = open_desk(crashed)
    eventually(lambda: held(again, name))
    assert again.view(name).files[0].original == 3


def test_nothing_is_raised_while_the_journal_cannot_be_written(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.controller.hotspots.desk.WRITE_S", 0.1)
    path = tmp_path / "d" / "j.db"
    desk = open_desk(path)
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")  # a directory that cannot be made again
    name = desk.announce(asked("a")).id
    eventually(lambda: "the journal cannot be written" in desk.view(name).reason)
    assert store.sets == []
    assert desk.view(name).state == "intended"
    path.parent.unlink()
    eventually(lambda: held(desk, name))
    assert path.exists()


def test_copies_are_given_back_also_while_the_journal_cannot_be_written(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "d" / "j.db"
    desk = open_desk(path)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    desk.release(name)
    eventually(lambda: store.copies["a"] == 3)
    path.parent.unlink()


def test_a_store_that_hangs_keeps_nobody_waiting(open_desk: OpenDesk, store: MemoryStore) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    store.hangs = threading.Event()
    began = time.monotonic()
    desk.release(name)
    desk.tick()
    assert desk.view(name).state == "lowering"
    assert time.monotonic() - began < 5.0
    store.hangs.set()
    eventually(lambda: store.copies["a"] == 3)


def test_copies_of_which_the_store_has_not_told_yet_are_not_gone(
    open_desk: OpenDesk, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_copies, answers = MemoryCarrier.set_copies, threading.Event()

    def set_and_hang(*given: Any) -> Any:
        told = set_copies(*given)
        assert answers.wait(30)
        return told

    monkeypatch.setattr(MemoryCarrier, "set_copies", set_and_hang)
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: store.copies["a"] > 3)
    desk.release(name)
    assert desk.view(name).state == "lowering"
    answers.set()
    eventually(lambda: desk.view(name).state == "gone")
    assert store.copies["a"] == 3


def test_a_store_that_is_away_is_asked_again(open_desk: OpenDesk, store: MemoryStore) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    store.away = True
    desk.release(name)
    eventually(lambda: "does not answer" in desk.view(name).reason)
    store.away = False
    eventually(lambda: (desk.tick(), store.copies["a"] == 3)[1])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_keeper_that_fails_is_replaced(open_desk: OpenDesk, store: MemoryStore) -> None:
    desk = open_desk(None)
    store.breaks = ZeroDivisionError("a bug")
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))


def test_a_checkpoint_whose_store_is_away_is_read_once_it_is_back(
    open_desk: OpenDesk, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, away = store.read, [True, True]

    def tried(message: HotspotAsked) -> tuple[HotFile, ...]:
        if away:
            away.pop()
            raise StorageError("the NameNode does not answer; is it running?")
        return read(message)

    monkeypatch.setattr(store, "read", tried)
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: "does not answer" in desk.view(name).reason)
    assert desk.view(name).state == "planning"
    eventually(lambda: held(desk, name))


def test_a_deleted_file_takes_its_lease_along(open_desk: OpenDesk, store: MemoryStore) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: held(desk, name))
    del store.copies["a"]
    eventually(lambda: desk.view(name).state == "skipped")
    assert "does not exist any more" in desk.view(name).files[0].reason
    desk.release(name)
    eventually(desk.is_idle)


def test_a_row_that_cannot_be_read_is_told_and_left(caplog: pytest.LogCaptureFixture) -> None:
    assert read_rows([b"{}", b'{"type":"lease"}']) == read_rows([])
    assert "cannot be read" in caplog.text


def test_too_many_announcements_are_refused(open_desk: OpenDesk, store: MemoryStore) -> None:
    desk = open_desk(None)
    for _ in range(MOST_LEASES):
        desk.announce(asked("a"))
    with pytest.raises(CallerError, match="are announced already"):
        desk.announce(asked("a"))
    for view in desk.views().hotspots:
        desk.release(view.id)
    assert len(desk._book.over) == REMEMBERED


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"world_size": 0}, "world_size=0"),
        ({"hosts": 2000}, "hosts=2000"),
        ({"eta_s": -1.0}, "eta_s=-1"),
        ({"eta_s": float("nan")}, "eta_s=nan"),
        ({"lease_s": 0.0}, "lease_s=0"),
        ({"lease_s": 1e9}, "renew the lease"),
        ({"url": ""}, "url is empty"),
        ({"files": ("a",) * 1001}, "1001 files"),
    ],
)
def test_what_makes_no_sense_is_refused(
    open_desk: OpenDesk, changed: dict[str, object], said: str
) -> None:
    with pytest.raises(CallerError, match=said):
        open_desk(None).announce(asked(**changed))


def test_the_journal_is_empty_when_all_is_over(
    open_desk: OpenDesk, store: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "j.db"
    with closing(Journal(path)) as journal:
        desk = HotspotDesk(journal, read=store.read, opened=store.opened)
        name = desk.announce(asked("a", "b")).id
        eventually(lambda: held(desk, name))
        desk.release(name)
        eventually(desk.is_idle)
        desk.close()
    assert rows_of(path) == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reading_that_fails_by_a_bug_is_no_lease_that_hangs(
    open_desk: OpenDesk, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(store, "read", broken)
    desk = open_desk(None)
    name = desk.announce(asked("a")).id
    eventually(lambda: f"hotspot {name}" not in {one.name for one in threading.enumerate()})
    assert desk.view(name).state == "failed"
    assert "the controller failed" in desk.view(name).reason


def test_figures_of_hotspots_are_told_to_prometheus(
    open_desk: OpenDesk, store: MemoryStore
) -> None:
    desk = open_desk(None)
    name = desk.announce(asked("a", job="llm")).id
    eventually(lambda: held(desk, name))
    families = _of_hotspots(desk.views().hotspots)
    lines = [line for family in families for line in family.lines()]
    assert f'headrace_hotspot_ready_share{{hotspot="{name}",job="llm"}} 1.0' in lines
    assert f'headrace_hotspot_state{{hotspot="{name}",job="llm",state="held"}} 1.0' in lines
