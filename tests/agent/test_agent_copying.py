"""Chunks copied by a real agent, from one of its roots to another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from client_for_tests import connect

from headrace.agent.local import LocalAgent
from headrace.core.digest import ContentDigest
from headrace.core.errors import (
    AgentUnavailableError,
    CallerError,
    CorruptDataError,
    HeadraceError,
    NotFoundError,
    RefusedError,
    StaleError,
    StorageError,
)
from headrace.storage.local import LocalStorage
from headrace.storage.opening import open_storage
from headrace.transfer.chunk import ChunkTask
from headrace.transfer.plan import STAGING
from headrace.transfer.remote import CopyCall, copy_remotely
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from waiting import eventually

MIB = 1 << 20
CONTENT = os.urandom(6 * MIB)
PART = 2 * MIB


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("copies")
    for name in ("source", "copy", "elsewhere"):
        (folder / name).mkdir()
    (folder / "source/x").write_bytes(CONTENT)
    return folder / "source", folder / "copy"


@pytest.fixture(scope="module")
def agent(roots: tuple[Path, Path]) -> Iterator[LocalAgent]:
    options = ("--workers", "0", "--copies", "2", "--cpu-threshold", "1")
    with LocalAgent(roots, options=options) as started:
        yield started


@pytest.fixture
def connection(agent: LocalAgent) -> Connection:
    return connected(agent)


def connected(agent: LocalAgent) -> Connection:
    return connect(Endpoint(address=agent.address, token=agent.token))


def calling(source: str, copy: str, name: str = "a", count: int = 3) -> CopyCall:
    tasks = tuple(
        ChunkTask(
            source=source,
            destination=copy,
            path="x",
            version=open_storage(source).stat("x").version,
            offset=PART * number,
            length=PART,
            staged=f"{STAGING}/{name}/key-{PART * number}-{PART}",
            digest=ContentDigest(CONTENT[PART * number :][:PART]).hexdigest(),
        )
        for number in range(count)
    )
    return CopyCall(tasks=tasks)


def with_task(call: CopyCall, **changes: object) -> CopyCall:
    return msgspec.structs.replace(
        call, tasks=(msgspec.structs.replace(call.tasks[0], **changes), *call.tasks[1:])
    )


def running(agent: LocalAgent) -> int:
    asked = connected(agent)
    asked.send("GET", "/v1/statistics")
    copies = msgspec.json.decode(asked.receive().read())["copies"]
    return int(copies["running"])


def nothing(_: int) -> None:
    """Take no note."""


def test_chunks_are_copied_into_the_staging_folder_and_a_second_time_found_there(
    connection: Connection, roots: tuple[Path, Path]
) -> None:
    source, copy = map(str, roots)
    call, moved = calling(source, copy), list[int]()
    done = copy_remotely(connection, call, moved.append)
    for task, one in zip(call.tasks, done, strict=True):
        data = LocalStorage(copy).read(one.part)
        assert data == CONTENT[task.offset :][:PART]
        assert one.sent
        assert one.digest == task.digest
    assert sum(moved) == 3 * PART
    again = copy_remotely(connection, call, nothing)
    assert [one.part for one in again] == [one.part for one in done]
    assert not any(one.sent for one in again)


def test_the_rate_that_is_given_is_kept_to(
    connection: Connection, roots: tuple[Path, Path]
) -> None:
    source, copy = map(str, roots)
    call = msgspec.structs.replace(calling(source, copy, "slow"), bytes_per_s=4.0 * MIB)
    begin, moved = time.monotonic(), list[int]()
    copy_remotely(connection, call, moved.append)
    assert time.monotonic() - begin > 0.9
    assert len(moved) > 1
    assert sum(moved) == 3 * PART


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"version": "1"}, StaleError, "x"),
        ({"path": "gone"}, NotFoundError, "gone"),
        ({"digest": "0" * 32}, CorruptDataError, "digest"),
        ({"path": "../elsewhere/x"}, CallerError, "leaves the root"),
        ({"staged": f"{STAGING}/a\0b"}, CallerError, "leaves the root"),
    ],
)
def test_a_copy_that_fails_says_why(
    connection: Connection,
    roots: tuple[Path, Path],
    changes: dict[str, object],
    error: type[HeadraceError],
    says: str,
) -> None:
    source, copy = map(str, roots)
    call = with_task(calling(source, copy, "bad"), **changes)
    with pytest.raises(error, match=says):
        copy_remotely(connection, call, nothing)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"source": "/etc"}, "outside-roots"),
        ({"destination": "/tmp"}, "outside-roots"),
        ({"staged": "x"}, "bad-request"),
        ({"staged": f"{STAGING}/../../x"}, "bad-request"),
        ({"length": 1 << 31}, "bad-request"),
        ({"destination": "other"}, "bad-request"),
    ],
)
def test_what_is_outside_the_roots_or_beyond_the_bounds_is_refused(
    connection: Connection, roots: tuple[Path, Path], changes: dict[str, object], code: str
) -> None:
    source, copy = map(str, roots)
    count = 3 if changes.get("destination") == "other" else 1
    call = with_task(calling(source, copy, "bad", count), **changes)
    with pytest.raises(RefusedError) as caught:
        copy_remotely(connection, call, nothing)
    assert caught.value.code == code


def test_a_rate_that_cannot_be_kept_to_is_refused(
    connection: Connection, roots: tuple[Path, Path]
) -> None:
    call = msgspec.structs.replace(calling(*map(str, roots)), bytes_per_s=1.0)
    with pytest.raises(RefusedError, match="256KiB"):
        copy_remotely(connection, call, nothing)


class LeftError(Exception):
    """The client has enough."""


def test_a_client_that_leaves_stops_its_copy_and_no_more_than_allowed_run_at_once(
    agent: LocalAgent, roots: tuple[Path, Path]
) -> None:
    slowly = 256.0 * 1024
    calls = [
        msgspec.structs.replace(calling(*map(str, roots), name), bytes_per_s=slowly)
        for name in ("left 1", "left 2", "left 3")
    ]
    clients = [connected(agent) for _ in range(2)]
    for client, call in zip(clients, calls, strict=False):
        client.send("POST", "/v1/copies", msgspec.json.encode(call))
        client.receive()
    assert running(agent) == 2
    with pytest.raises(AgentUnavailableError, match="copies 2 groups"):
        copy_remotely(connected(agent), calls[2], nothing)
    for client in clients:
        client.close()
    eventually(lambda: running(agent) == 0)

    def leave(_: int) -> None:
        raise LeftError

    with pytest.raises(LeftError):
        copy_remotely(connected(agent), calls[2], leave)
    eventually(lambda: running(agent) == 0)
    assert not any(
        "left" in info.path for info in LocalStorage(roots[1]).list() if info.size == PART
    )


def test_an_agent_that_dies_while_it_copies_or_copies_nothing_says_so(
    roots: tuple[Path, Path],
) -> None:
    call = msgspec.structs.replace(calling(*map(str, roots), "dies"), bytes_per_s=MIB / 2)
    with LocalAgent(roots, options=("--workers", "0")) as agent:

        def kill(_: int) -> None:
            os.kill(agent.ready.pid, 9)

        with pytest.raises(AgentUnavailableError):
            copy_remotely(connected(agent), call, kill)
    with LocalAgent(roots, options=("--workers", "0", "--copies", "0")) as agent:
        with pytest.raises(RefusedError) as caught:
            copy_remotely(connected(agent), call, nothing)
        assert caught.value.code == "no-copies"


def test_a_destination_without_room_is_told(
    connection: Connection, roots: tuple[Path, Path]
) -> None:
    closed = roots[1] / ".headrace/staging/full"
    closed.parent.mkdir(parents=True, exist_ok=True)
    closed.write_bytes(b"a file where a folder should be")
    with pytest.raises(StorageError if os.getuid() else HeadraceError):
        copy_remotely(connection, calling(*map(str, roots), "full"), nothing)


def test_chunks_go_from_hdfs_to_a_directory(hdfs_dir: str, roots: tuple[Path, Path]) -> None:
    storage = open_storage(hdfs_dir)
    storage.write("x", CONTENT)
    with LocalAgent([hdfs_dir, *roots], options=("--workers", "0")) as agent:
        done = copy_remotely(connected(agent), calling(hdfs_dir, str(roots[1]), "hdfs"), nothing)
        parts = [LocalStorage(roots[1]).read(one.part) for one in done]
        assert b"".join(parts) == CONTENT
        back = calling(str(roots[0]), hdfs_dir, "back", 1)
        (one,) = copy_remotely(connected(agent), back, nothing)
        assert storage.read(one.part) == CONTENT[:PART]
    storage.close()
