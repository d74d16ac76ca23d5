"""Ranges of files through a real agent, and what it keeps of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client_for_tests import connect

from headrace.agent.agentlog import AgentLog
from headrace.agent.config import AgentConfig
from headrace.agent.local import LocalAgent
from headrace.agent.ranges import reading
from headrace.agent.ranges.memory import FileName, Piece
from headrace.agent.ranges.reading import RangeReading
from headrace.agent.ranges.service import BELIEVED_S, RangeService
from headrace.agent.raw import ByteBudget
from headrace.agent.roots import Located, Roots
from headrace.agent.storages import OpenStores
from headrace.agent.threads import DaemonThreads
from headrace.core.clock import ManualClock
from headrace.core.errors import AgentUnavailableError, DeadlineError, RefusedError
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage
from headrace.storage.port import FileInfo
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.ranges import (
    MOST_RANGE_BYTES,
    Preload,
    PreloadedFile,
    PreloadState,
    WantedRange,
    drop_preload,
    fetch_range,
    preload_state,
    preloaded_files,
    put_preload,
)
from waiting import eventually

CONTENT = os.urandom(20 << 20)
SMALL = 3 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranges") / "served"
    (folder / "step-1").mkdir(parents=True)
    (folder / "step-1/big").write_bytes(CONTENT)
    (folder.parent / "secret").write_bytes(b"not served")
    (folder / "step-1/link").symlink_to(folder.parent / "secret")
    return folder


@pytest.fixture(scope="module")
def agent(folder: Path) -> Iterator[LocalAgent]:
    options = ("--workers", "0", "--range-memory", "30MiB", "--cpu-threshold", "1")
    with LocalAgent([folder], options=options) as started:
        yield started


@pytest.fixture
def connection(agent: LocalAgent) -> Connection:
    return connect(Endpoint(address=agent.address, token=agent.token))


def fetched(
    connection: Connection, folder: Path | str, wanted: WantedRange, have: str | None = None
) -> tuple[bytes, str]:
    into = bytearray(wanted.length)
    version = fetch_range(connection, str(folder), wanted, memoryview(into), have=have)
    return bytes(into), version


def big(offset: int, length: int) -> WantedRange:
    return WantedRange(path="step-1/big", offset=offset, length=length)


def counts(connection: Connection) -> dict[str, Any]:
    connection.send("GET", "/v1/statistics")
    ranges: dict[str, Any] = msgspec.json.decode(connection.receive().read())["ranges"]
    return ranges


def ready(connection: Connection, name: str) -> PreloadState:
    def complete() -> bool:
        state = preload_state(connection, name)
        return state.ready_bytes + state.refused_bytes == state.nbytes

    eventually(complete)
    return preload_state(connection, name)


@pytest.mark.parametrize("span", [(0, 1), (5, 3_000_000), (len(CONTENT) - 7, 7), (1 << 20, 1)])
def test_a_range_comes_with_the_version_of_its_file(
    connection: Connection, folder: Path, span: tuple[int, int]
) -> None:
    data, version = fetched(connection, folder, big(*span))
    assert data == CONTENT[span[0] :][: span[1]]
    assert version == LocalStorage(folder).stat("step-1/big").version
    assert fetched(connection, folder / "step-1", WantedRange(path="big", offset=9, length=9))[0]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "bad-request"),
        ("url={url}&path=step-1/big&offset=0&length=0", "bad-request"),
        ("url={url}&path=step-1/big&offset=-1&length=5", "bad-request"),
        ("url={url}&path=step-1/big&offset=1e3&length=5", "bad-request"),
        ("url={url}&path=step-1/big&offset=0&length=99999999999999999999999", "bad-request"),
        (f"url={{url}}&path=step-1/big&offset=0&length={MOST_RANGE_BYTES + 1}", "bad-request"),
        ("url={url}&path=step-1/big&offset=0&length=%D9%A3", "bad-request"),
        ("url={url}&path=&offset=0&length=5", "bad-request"),
        ("url={url}&path=../secret&offset=0&length=5", "bad-request"),
        ("url={url}&path=/etc/passwd&offset=0&length=5", "bad-request"),
        ("url={url}&path=a%00b&offset=0&length=5", "bad-request"),
        ("url=/etc&path=passwd&offset=0&length=5", "outside-roots"),
        ("url={url}/..&path=secret&offset=0&length=5", "outside-roots"),
        ("url=hdfs://nobody:1/&path=x&offset=0&length=5", "outside-roots"),
        ("url={url}&path=step-1&offset=0&length=5", "not-found"),
        ("url={url}&path=step-1/none&offset=0&length=5", "not-found"),
        (f"url={{url}}&path=step-1/big&offset={len(CONTENT) - 4}&length=5", "beyond-end"),
        ("url={url}&path=step-1/big&offset=0&length=5&have=other", "changed"),
    ],
)
def test_what_makes_no_sense_or_is_not_served_is_refused(
    connection: Connection, folder: Path, query: str, code: str
) -> None:
    connection.send("GET", f"/v1/ranges?{query.format(url=folder)}")
    with pytest.raises(RefusedError) as caught:
        connection.receive()
    assert caught.value.code == code


def test_a_link_out_of_the_roots_is_not_followed(connection: Connection, folder: Path) -> None:
    wanted = WantedRange(path="step-1/link", offset=0, length=3)
    with pytest.raises(AgentUnavailableError, match="outside"):
        fetched(connection, folder, wanted)


def test_a_preload_is_read_once_and_served_from_memory(
    connection: Connection, folder: Path
) -> None:
    preload = Preload(url=str(folder), ranges=(big(100, 9 << 20),), lease_s=60)
    before = counts(connection)
    for _ in range(3):
        assert put_preload(connection, "job-1", preload).nbytes == 9 << 20
    state = ready(connection, "job-1")
    assert (state.refused_bytes, state.reason) == (0, "")
    assert 50 < state.expires_in_s <= 60
    assert fetched(connection, folder, big(5000, SMALL))[0] == CONTENT[5000:][:SMALL]
    assert fetched(connection, folder, big(7 << 20, 2 << 20))[0] == CONTENT[7 << 20 : 9 << 20]
    after = counts(connection)
    assert after["kept_bytes"] - before["kept_bytes"] == SMALL + (2 << 20)
    assert after["read_bytes"] - before["read_bytes"] == 9 << 20
    assert after["sent_bytes"] - before["sent_bytes"] == SMALL + (2 << 20)
    drop_preload(connection, "job-1")
    drop_preload(connection, "job-1")
    assert counts(connection)["memory_used_bytes"] == 0
    with pytest.raises(RefusedError) as caught:
        preload_state(connection, "job-1")
    assert caught.value.code == "not-found"
    assert fetched(connection, folder, big(5000, 9))[0] == CONTENT[5000:5009]


def test_a_file_is_the_same_one_by_whichever_folder_it_is_named(
    connection: Connection, folder: Path
) -> None:
    deep = WantedRange(path="big", offset=0, length=5000)
    put_preload(connection, "deep", Preload(url=f"{folder}/step-1", ranges=(deep,), lease_s=60))
    ready(connection, "deep")
    before = counts(connection)["read_bytes"]
    for url, path in (
        (folder, "step-1/big"),
        (f"{folder}/", "./step-1//big"),
        (folder, "step-1/big"),
    ):
        wanted = WantedRange(path=path, offset=7, length=100)
        assert fetched(connection, url, wanted)[0] == CONTENT[7:107]
    assert counts(connection)["read_bytes"] == before
    assert preloaded_files(connection, str(folder)) == (
        PreloadedFile(path="step-1/big", ready_bytes=5000),
    )
    (folder / "step-10").mkdir()
    assert preloaded_files(connection, f"{folder}/step-10") == ()
    drop_preload(connection, "deep")
    assert preloaded_files(connection, f"{folder}/step-1/") == ()
    with pytest.raises(RefusedError, match="outside"):
        preloaded_files(connection, "/etc")


def test_two_leases_share_what_both_want_and_one_that_ends_leaves_it_to_the_other(
    connection: Connection, folder: Path
) -> None:
    whole = Preload(url=str(folder), ranges=(big(0, 16 << 20),), lease_s=60)
    short = msgspec.structs.replace(whole, lease_s=1.0)
    put_preload(connection, "long", whole)
    put_preload(connection, "short", short)
    ready(connection, "long")
    ready(connection, "short")
    assert counts(connection)["memory_used_bytes"] == 16 << 20
    eventually(lambda: counts(connection)["preloads"] == 1)
    assert preload_state(connection, "long").ready_bytes == 16 << 20
    drop_preload(connection, "long")
    assert counts(connection)["memory_used_bytes"] == 0


def test_what_does_not_fit_is_refused_and_read_when_there_is_room(
    connection: Connection, folder: Path
) -> None:
    first = Preload(url=str(folder), ranges=(big(0, 16 << 20),), lease_s=60)
    # The same bytes in other pieces: these are not shared.
    other = tuple(big(at, 6 << 20) for at in range(1 << 20, 17 << 20, 8 << 20))
    second = Preload(url=str(folder), ranges=(*other, big(17 << 20, 3 << 20)), lease_s=60)
    put_preload(connection, "first", first)
    put_preload(connection, "second", second)
    state = ready(connection, "second")
    assert state.refused_bytes > 0
    assert "--range-memory" in state.reason
    assert counts(connection)["memory_used_bytes"] <= 30 << 20
    drop_preload(connection, "first")
    put_preload(connection, "second", second)
    state = ready(connection, "second")
    assert (state.refused_bytes, state.ready_bytes) == (0, 15 << 20)
    drop_preload(connection, "second")


def test_a_file_that_is_replaced_is_not_served_as_the_old_one(
    connection: Connection, folder: Path
) -> None:
    storage = LocalStorage(folder)
    old = storage.write("step-2/x", b"old bytes")
    whole = WantedRange(path="step-2/x", offset=0, length=9)
    preload = Preload(url=str(folder), ranges=(whole,), lease_s=60)
    put_preload(connection, "x", preload)
    ready(connection, "x")
    assert fetched(connection, folder, whole, have=old.version) == (b"old bytes", old.version)
    new = storage.write("step-2/x", b"new bytes")

    def is_new() -> bool:
        return fetched(connection, folder, whole) == (b"new bytes", new.version)

    assert fetched(connection, folder, whole)[0] in (b"old bytes", b"new bytes")
    eventually(is_new)
    with pytest.raises(RefusedError) as caught:
        fetched(connection, folder, whole, have=old.version)
    assert caught.value.code == "changed"
    assert put_preload(connection, "x", preload).refused_bytes == 0
    ready(connection, "x")
    drop_preload(connection, "x")


def test_a_preload_of_what_is_not_there_says_so(connection: Connection, folder: Path) -> None:
    missing = WantedRange(path="step-9/none", offset=0, length=5)
    put_preload(connection, "none", Preload(url=str(folder), ranges=(missing,), lease_s=60))
    eventually(lambda: "no such file" in preload_state(connection, "none").reason)
    assert preload_state(connection, "none").ready_bytes == 0
    drop_preload(connection, "none")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"lease_s": 0.0}, "bad-request"),
        ({"lease_s": 1e9}, "bad-request"),
        ({"ranges": ()}, "bad-request"),
        ({"ranges": (WantedRange(path="../secret", offset=0, length=1),)}, "bad-request"),
        ({"ranges": (WantedRange(path="x", offset=-1, length=1),)}, "bad-request"),
        ({"ranges": (WantedRange(path="x", offset=0, length=1 << 63),)}, "bad-request"),
        ({"url": "/etc"}, "outside-roots"),
    ],
)
def test_a_preload_that_makes_no_sense_is_refused(
    connection: Connection, folder: Path, changes: dict[str, Any], code: str
) -> None:
    preload = Preload(url=str(folder), ranges=(big(0, 1),), lease_s=60)
    with pytest.raises(RefusedError) as caught:
        put_preload(connection, "bad", msgspec.structs.replace(preload, **changes))
    assert caught.value.code == code


def test_an_agent_may_keep_nothing(folder: Path) -> None:
    options = ("--workers", "0", "--range-memory", "0")
    with LocalAgent([folder], options=options) as agent:
        asked = connect(Endpoint(address=agent.address, token=agent.token))
        preload = Preload(url=str(folder), ranges=(big(0, 5),), lease_s=60)
        assert put_preload(asked, "x", preload).refused_bytes == 5
        assert fetched(asked, folder, big(0, 5))[0] == CONTENT[:5]
        slow = connect(Endpoint(address=agent.address, token=agent.token))
        slow.send("GET", f"/v1/ranges?url={folder}&path=step-1/big&offset=0&length={16 << 20}")
        answer = slow.receive()
        os.kill(agent.ready.pid, 9)
        into = memoryview(bytearray(16 << 20))
        with pytest.raises(AgentUnavailableError):
            assert answer.readinto(into) == len(into)
            fetched(slow, folder, big(0, 5))


def test_a_range_of_hdfs_comes_through_an_agent_beside_it(hdfs_dir: str) -> None:
    storage = open_storage(hdfs_dir)
    info = storage.write("step-1/big", CONTENT[:SMALL])
    with LocalAgent([hdfs_dir], options=("--workers", "0")) as agent:
        asked = connect(Endpoint(address=agent.address, token=agent.token))
        data, version = fetched(asked, hdfs_dir, big(1 << 20, 1 << 20), have=info.version)
        assert (data, version) == (CONTENT[1 << 20 : 2 << 20], info.version)
        preload = Preload(url=hdfs_dir, ranges=(big(0, SMALL),), lease_s=60)
        put_preload(asked, "x", preload)
        assert ready(asked, "x").ready_bytes == SMALL
        assert fetched(asked, hdfs_dir, big(0, SMALL))[0] == CONTENT[:SMALL]
    storage.close()


class Gated(LocalStorage):
    """Waits before each read until it is let through, and counts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.reads = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.reads += 1
        self.gate.wait(20)
        return super().read(path, offset, length)


def test_a_range_that_many_ask_for_at_once_is_read_once(folder: Path) -> None:
    storage, wanted = Gated(folder), piece(folder)

    async def ask(reads: RangeReading) -> bytes:
        async with reads.shared_read(wanted) as found:
            return b"".join(found.parts)

    async def all_ask() -> list[bytes]:
        reads = RangeReading(ByteBudget(1 << 20), OpenStores(lambda _: storage), AgentLog(None))
        asking = [asyncio.ensure_future(ask(reads)) for _ in range(10)]
        async with asyncio.timeout(20):
            while reads.shared < 9:
                await asyncio.sleep(0.01)
        asking.pop().cancel()
        storage.gate.set()
        got = await asyncio.gather(*asking)
        assert reads.shared == 9
        got.append(await ask(reads))
        reads.close()
        return got

    assert set(asyncio.run(all_ask())) == {CONTENT[5:1005]}
    assert storage.reads == 2


def test_a_read_that_hangs_keeps_nobody_longer_than_its_patience(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks again meanwhile waits for the same read: hanging ones do not pile up."""
    monkeypatch.setattr(reading, "PATIENCE_S", 0.1)
    storage = Gated(folder)

    async def ask_twice() -> bytes:
        reads = RangeReading(ByteBudget(1 << 20), OpenStores(lambda _: storage), AgentLog(None))
        for _ in range(3):
            with pytest.raises(DeadlineError, match="hang"):
                async with reads.shared_read(piece(folder)):
                    pass
        assert storage.reads == 1
        monkeypatch.setattr(reading, "PATIENCE_S", 20.0)
        storage.gate.set()
        async with reads.shared_read(piece(folder)) as found:
            got = b"".join(found.parts)
        reads.close()
        return got

    assert asyncio.run(ask_twice()) == CONTENT[5:1005]


class Silent(LocalStorage):
    """Tells no more of its files, once told so, until it ends."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ended = threading.Event()
        self.silent = False
        self.looks = 0

    def stat(self, path: str) -> FileInfo:
        self.looks += 1
        if self.silent:
            self.ended.wait(20)
        return super().stat(path)


def test_what_is_kept_is_served_while_the_storage_hangs(folder: Path) -> None:
    storage, clock = Silent(folder), ManualClock()
    config = AgentConfig(token="x" * 16, roots=(folder,))
    service = RangeService(
        config,
        Roots(config.roots),
        clock,
        stores=OpenStores(lambda _: storage),
        budget=ByteBudget(1 << 20),
        threads=DaemonThreads(1, "test"),
        log=AgentLog(None),
    )
    wanted = piece(folder)
    preload = Preload(url=str(folder), ranges=(big(0, 4096),), lease_s=600)

    async def serve() -> bytes:
        running = asyncio.ensure_future(service.run())
        service.leases.put("x", wanted.file.place, preload)
        while not service.leases.state("x").ready_bytes:
            await asyncio.sleep(0.01)
        storage.silent, looks = True, storage.looks
        got = b""
        for _ in range(3):
            clock.advance(2 * BELIEVED_S)
            async with asyncio.timeout(5), service.found(wanted, None) as found:
                got += b"".join(found.parts)
        assert storage.looks == looks + 1
        running.cancel()
        storage.ended.set()
        service.close()
        return got

    assert asyncio.run(serve()) == 3 * CONTENT[5:1005]


def piece(folder: Path) -> Piece:
    return Piece(FileName(Located(str(folder), str(folder)), "step-1/big"), 5, 1000)
