"""What the backend makes of answers that a cluster in good order does not give."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from headrace.core.errors import DeadlineError, NotFoundError, StorageError
from headrace.storage.hdfs import HdfsConfig, HdfsStorage, namenode
from headrace.storage.port import CLOSED_FOLDER, ByteRange

LONG_S = 30.0
AWAY = ConnectionRefusedError("Connection refused (os error 111)")
CLOSED = RuntimeError(
    'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: ann")'
)


@dataclass(frozen=True)
class Status:
    path: str
    isdir: bool = False
    length: int = 0
    modification_time: int = 1
    replication: int = 1


@dataclass
class FakeReader:
    data: bytes
    before: Callable[[], object] = bool
    """Called before each answer: it may wait, raise, or change something."""

    between: Callable[[], object] = bool
    """Called before each packet, which holds one byte."""

    def __len__(self) -> int:
        return len(self.data)

    def read_range_stream(self, offset: int, length: int) -> Iterator[bytes]:
        self.before()
        for at in range(offset, min(offset + length, len(self.data))):
            self.between()
            yield self.data[at : at + 1]


@dataclass
class FakeClient:
    """A NameNode with a few files; ``failures`` are raised first, one a call."""

    statuses: dict[str, Status]
    closed: set[str] = field(default_factory=set)
    readers: list[FakeReader] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def get_file_info(self, path: str) -> Status:
        self._answer(f"stat {path}")
        if path not in self.statuses:
            raise FileNotFoundError(path)
        return self.statuses[path]

    def list_status(self, path: str) -> Iterator[Status]:
        self._answer(f"list {path}")
        if path in self.closed:
            raise CLOSED
        inside = path.rstrip("/") + "/"
        return (
            s
            for p, s in self.statuses.items()
            if p.startswith(inside) and "/" not in p[len(inside) :] and p != "/"
        )

    def read(self, path: str) -> FakeReader:
        self._answer(f"open {path}")
        return self.readers.pop(0) if len(self.readers) > 1 else self.readers[0]

    def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.failures:
            raise self.failures.pop(0)


def tree(*paths: str, length: int = 0) -> dict[str, Status]:
    statuses = {"/": Status("/", isdir=True)}
    for path in paths:
        statuses[path] = Status(path, isdir=path.endswith("d"), length=length)
    return statuses


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient(tree("/x", length=4), readers=[FakeReader(b"data")])
    monkeypatch.setattr(namenode, "_connect", lambda *_: fake)
    return fake


def storage(**limits: float) -> HdfsStorage:
    return HdfsStorage("hdfs://nn:1/", HdfsConfig(**limits))  # type: ignore[arg-type]


def test_a_folder_that_is_closed_to_this_user_is_listed_as_closed(client: FakeClient) -> None:
    client.statuses = tree("/ad", "/ad/x", "/bd", "/bd/y", "/c")
    client.closed = {"/ad"}
    store = storage()
    assert [(info.path, info.version == CLOSED_FOLDER) for info in store.list()] == [
        ("ad", True),
        ("bd/y", False),
        ("c", False),
    ]
    with pytest.raises(StorageError, match="HADOOP_USER_NAME"):
        list(store.list("ad"))


def test_a_namenode_that_never_answered_is_not_waited_for(client: FakeClient) -> None:
    client.failures = [AWAY]
    with pytest.raises(StorageError, match="refused"):
        storage(outage_s=LONG_S)
    assert client.asked == ["stat /"]


def test_a_namenode_that_answered_before_is_asked_until_it_is_back(client: FakeClient) -> None:
    store = storage(outage_s=LONG_S)
    client.failures = [AWAY, AWAY, AWAY]
    assert store.stat("x").size == 4
    client.failures = [AWAY]
    assert store.read("x") == b"data"


def test_a_namenode_that_stays_away_is_an_error_in_the_end(client: FakeClient) -> None:
    store = storage(outage_s=0.3)
    client.failures = [AWAY] * 1000
    with pytest.raises(StorageError, match="nn:1"):
        store.read("x")


def test_what_is_open_costs_the_namenode_nothing(client: FakeClient) -> None:
    store = storage()
    assert [store.read("x", 1, 2), store.stat("x").size] == [b"at", 4]
    client.asked.clear()
    for _ in range(10):
        assert store.read("x", 1, 2) == b"at"
        store.stat("x")
    assert client.asked == []


def test_a_file_from_a_listing_is_read_with_one_question(client: FakeClient) -> None:
    store = storage()
    assert [info.path for info in store.list()] == ["x"]
    client.asked.clear()
    assert store.read("x") == b"data"
    assert client.asked == ["open /x"]


def test_a_file_that_changed_while_it_was_opened_is_not_described_by_the_old_stamp(
    client: FakeClient,
) -> None:
    store = storage()
    assert len(list(store.list())) == 1
    client.statuses["/x"] = Status("/x", length=3, modification_time=2)
    client.readers = [FakeReader(b"new")]
    assert store.read("x") == b"new"
    assert (store.stat("x").size, store.stat("x").version) == (3, "2")


def test_late_bytes_are_asked_for_again(client: FakeClient) -> None:
    never = threading.Event()
    client.readers = [FakeReader(b"data", lambda: never.wait(LONG_S)), FakeReader(b"data")]
    assert storage(hedge_s=0.02).read("x") == b"data"
    never.set()


def test_bytes_that_come_slowly_are_not_asked_for_again(client: FakeClient) -> None:
    client.readers = [FakeReader(b"data", between=lambda: time.sleep(0.2))]
    assert storage(hedge_s=0.6).read("x") == b"data"
    assert client.asked.count("open /x") == 1


def test_what_nobody_waits_for_any_more_ends_with_the_next_packet(client: FakeClient) -> None:
    packets, late = [], threading.Event()

    def slow() -> None:
        packets.append(late.wait(0.2))

    client.readers = [FakeReader(b"data", between=slow), FakeReader(b"data")]
    assert storage(hedge_s=0.02).read("x") == b"data"
    seen = len(packets)
    time.sleep(0.5)
    assert len(packets) <= seen + 1


def test_late_bytes_are_not_taken_from_another_version(client: FakeClient) -> None:
    late = threading.Event()

    def replace_and_wait() -> None:
        client.statuses["/x"] = Status("/x", length=4, modification_time=2)
        late.wait(LONG_S)

    client.readers = [FakeReader(b"data", replace_and_wait), FakeReader(b"new!", late.set)]
    threading.Timer(0.3, late.set).start()
    assert storage(hedge_s=0.02).read("x") == b"data"


def test_bytes_that_never_come_end_in_an_error(client: FakeClient) -> None:
    never = threading.Event()
    client.readers = [FakeReader(b"data", lambda: never.wait(LONG_S))]
    with pytest.raises(DeadlineError, match="/x"):
        storage(hedge_s=0.02, read_timeout_s=0.2).read("x", 0, 2)
    never.set()


def test_a_block_that_no_datanode_has_reported_yet_is_waited_for(client: FakeClient) -> None:
    def fail() -> None:
        raise RuntimeError('DataTransferError("All DataNodes failed: []")')

    client.readers = [FakeReader(b"data", fail)] * 3 + [FakeReader(b"data")]
    assert storage().read_ranges("x", [ByteRange(1, 2)]) == [b"at"]


def test_a_file_deleted_under_a_reader_is_gone(client: FakeClient) -> None:
    store = storage(revalidate_s=0.001)
    assert store.read("x") == b"data"
    assert store.stat("x").size == 4
    del client.statuses["/x"]
    threading.Event().wait(0.01)
    with pytest.raises(NotFoundError):
        store.stat("x")
