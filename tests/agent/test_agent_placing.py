"""Finding out where blocks lie: all of them, again and again, and never in a hurry."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from headrace.agent.placing import ERRORS_AT_ONCE, Finder, LocatedSource, PlacingLimits
from headrace.core.errors import ConfigError, NotFoundError, StorageError
from headrace.storage.port import BlockPlace, Replica
from headrace.wire.messages import JobPlaces


class FakeStore:
    """Knows one block of each file, on a node that can be changed."""

    def __init__(self, *, node: str = "n1") -> None:
        self.node = node
        self.down = False
        self.gone: set[str] = set()
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def locations(self, path: str) -> Sequence[BlockPlace]:
        with self._lock:
            self.asked.append(path)
        if self.down:
            raise StorageError("the NameNode does not answer")
        if path in self.gone:
            raise NotFoundError(f"no {path}")
        return [BlockPlace(0, 10, (Replica(self.node, f"{self.node}:9866"),))]


def files(count: int) -> list[str]:
    return [f"{number}.tar" for number in range(count)]


def finder(store: FakeStore | None, count: int, **limits: float) -> Finder:
    return Finder([LocatedSource(files(count), store)], PlacingLimits(**limits))  # type: ignore[arg-type]


def hosts(places: JobPlaces | None) -> list[str]:
    assert places is not None
    return [node.host for node in places.nodes]


def test_a_small_job_is_mapped_after_a_few_portions() -> None:
    store = FakeStore()
    search = finder(store, 250, asks_per_s=100.0)
    offers = [search.advance(now) for now in (0.0, 1.0, 2.0, 3.0, 4.0)]
    assert sorted(store.asked) == sorted(files(250))
    assert [offer is not None for offer in offers].count(True) == 1
    assert hosts(next(offer for offer in offers if offer)) == ["n1"]


def test_a_store_is_asked_no_more_often_than_it_may_be() -> None:
    store = FakeStore()
    search = finder(store, 10_000, asks_per_s=100.0)
    for tenth in range(100):
        search.advance(tenth / 10)
    assert len(store.asked) <= 10 * 100 + 1
    search.advance(1000.0)  # nor after a long pause
    assert len(store.asked) <= 11 * 100 + 1


def test_blocks_that_moved_are_noticed_in_the_next_round() -> None:
    store = FakeStore()
    search = finder(store, 3, refresh_s=60.0)
    _all(search, 0.0)
    store.node = "n2"
    assert search.advance(50.0) is None
    assert hosts(_all(search, 67.0)) == ["n2"]


def test_a_round_that_takes_long_offers_what_is_known_so_far() -> None:
    search = finder(FakeStore(), 1000, asks_per_s=1.0, refresh_s=10.0)
    offers = [now for now in range(100) if search.advance(float(now)) is not None]
    assert 8 <= len(offers) <= 10


def test_a_file_that_was_removed_lies_nowhere_and_the_others_stay() -> None:
    store = FakeStore()
    search = finder(store, 3)
    first = _all(search, 0.0)
    store.gone = {"1.tar"}
    second = _all(search, 100.0)
    assert first.version != second.version
    assert hosts(second) == ["n1"]


def test_what_is_known_stays_while_the_store_does_not_answer_and_it_is_not_pressed() -> None:
    store = FakeStore()
    search = finder(store, 1000, asks_per_s=1000.0)
    known = _all(search, 0.0)
    store.down, before = True, len(store.asked)
    search.advance(100.0)
    search.advance(101.0)
    assert len(store.asked) - before <= 3 * ERRORS_AT_ONCE
    store.down = False
    again = _all(search, 102.0)
    assert again.version == known.version
    assert "does not answer" in again.reason


def test_a_store_that_cannot_tell_and_a_job_of_too_many_files_get_no_map() -> None:
    assert "cannot tell" in finder(None, 3).why_never()
    assert "pack them into shards" in finder(FakeStore(), 3, most_files=2).why_never()
    assert not finder(FakeStore(), 3).why_never()


@pytest.mark.parametrize("wrong", ["refresh_s", "asks_per_s", "threads"])
def test_limits_that_make_no_sense_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        PlacingLimits(**{wrong: 0})  # type: ignore[arg-type]


def _all(search: Finder, now: float) -> JobPlaces:
    """Advance until a map is offered."""
    for second in range(100):
        places = search.advance(now + second)
        if places is not None:
            return places
    raise AssertionError("nothing was offered")
