from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client_for_tests import connect

from headrace.agent.local import LocalAgent
from headrace.agent.roots import Located
from headrace.agent.storages import SharedStorages
from headrace.core.errors import AgentUnavailableError, RefusedError, StorageError
from headrace.dataset.index import DEFAULT_PATH
from headrace.storage.local import LocalStorage
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint

NOBODY = "hdfs://127.0.0.1:9/data"


class Counted(LocalStorage):
    closed = 0

    def close(self) -> None:
        self.closed += 1


class Opener:
    """Opens directories, and remembers what it opened."""

    def __init__(self) -> None:
        self.opened: list[Counted] = []
        self.both_are_here: threading.Barrier | None = None

    def __call__(self, place: Located) -> Counted:
        if self.both_are_here is not None:
            self.both_are_here.wait(10)
        self.opened.append(Counted(place.url))
        return self.opened[-1]


def test_a_place_is_opened_once_and_closed_after_its_last_user(tmp_path: Path) -> None:
    opener, place = Opener(), Located(str(tmp_path), None)
    shared = SharedStorages(opener)
    first, second = shared.take(place), shared.take(place)
    assert first is second
    shared.give_back(place)
    assert opener.opened[0].closed == 0
    shared.give_back(place)
    assert opener.opened[0].closed == 1
    assert shared.take(place) is not first


def test_two_who_open_the_same_place_at_once_end_up_with_one(tmp_path: Path) -> None:
    opener, place = Opener(), Located(str(tmp_path), None)
    opener.both_are_here = threading.Barrier(2)
    shared = SharedStorages(opener)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(shared.take, [place, place])
    assert first is second
    assert sorted(storage.closed for storage in opener.opened) == [0, 1]
    shared.give_back(place)
    shared.give_back(place)
    assert [storage.closed for storage in opener.opened] == [1, 1]


def test_a_place_that_cannot_be_opened_is_tried_anew(tmp_path: Path) -> None:
    answers = [StorageError("the NameNode restarts"), LocalStorage(tmp_path)]

    def open_place(_: Located) -> LocalStorage:
        answer = answers.pop(0)
        if isinstance(answer, StorageError):
            raise answer
        return answer

    shared, place = SharedStorages(open_place), Located("hdfs://nn/data", None)
    with pytest.raises(StorageError):
        shared.take(place)
    assert isinstance(shared.take(place), LocalStorage)


def test_closing_closes_what_is_still_open(tmp_path: Path) -> None:
    opener = Opener()
    shared = SharedStorages(opener)
    shared.take(place := Located(str(tmp_path), None))
    shared.close()
    shared.give_back(place)  # by a job that ends with its agent
    assert [storage.closed for storage in opener.opened] == [1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def asked(folder: Path) -> Iterator[Connection]:
    """A connection to an agent of a folder, and of a store that is away."""
    with LocalAgent([NOBODY, folder], options=["--workers", "0"]) as agent:
        yield connect(Endpoint(address=agent.address, token=agent.token))


def test_whoever_asks_an_agent_whose_store_is_away_is_told_to_come_again(
    asked: Connection,
) -> None:
    for _ in range(2):
        asked.send("GET", f"/v1/index?url={NOBODY}")
        with pytest.raises(AgentUnavailableError, match=r"NameNode 127\.0\.0\.1:9"):
            asked.receive()
    asked.send("GET", "/v1/index?url=hdfs://127.0.0.1:9/else")
    with pytest.raises(RefusedError, match="outside this agent's stores"):
        asked.receive()


def test_an_index_is_handed_over_as_it_lies_whoever_asks(asked: Connection, folder: Path) -> None:
    """To read and write it anew took 3 s of CPU per million samples, for each rank that asked."""
    (folder / DEFAULT_PATH).write_bytes(b"whatever lies there")
    asked.send("GET", f"/v1/index?url={folder}")
    assert asked.receive().read() == b"whatever lies there"
    (folder / DEFAULT_PATH).unlink()
    asked.send("GET", f"/v1/index?url={folder}")
    with pytest.raises(RefusedError, match="build it with `headrace index"):
        asked.receive()
