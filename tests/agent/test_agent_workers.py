"""The pool of worker processes, by itself."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
from pathlib import Path

import msgspec
import numpy as np
import ops_for_tests
import pytest
from client_for_tests import PLAIN, make_dataset
from PIL import Image

from headrace.agent.arena import Arena
from headrace.agent.fasttier.file import NO_FILES
from headrace.agent.roots import Located
from headrace.agent.tasks import (
    LENGTH,
    Bundle,
    Done,
    Failed,
    MoreMemory,
    OpenPipeline,
    Outcome,
    Prove,
    Task,
    TooLarge,
    encode,
)
from headrace.agent.worker import Worker, open_preparer, places_of
from headrace.agent.workers import WorkerLimits, WorkerPool
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.side import SideFiles
from headrace.storage.local import LocalStorage
from headrace.transform import ops
from headrace.transform.ops.user import UserOp
from headrace.transform.pipeline import Pipeline

MB = 1 << 20


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return make_dataset(tmp_path / "pictures", count=6)


def test_a_task_that_waits_is_made_although_its_source_is_closed_meanwhile(dataset: Path) -> None:
    async def outcome() -> Outcome | TooLarge:
        told: asyncio.Future[Outcome | TooLarge] = asyncio.get_running_loop().create_future()
        arena = Arena(4 * MB)
        pool = WorkerPool(arena, WorkerLimits(count=1), told.set_result)
        pool.open_source(_source(dataset))
        pool.submit([_task(Index.load(str(dataset)), arena)])
        pool.close_source(1)
        running = asyncio.create_task(pool.run())
        try:
            async with asyncio.timeout(60):
                return await told
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    assert isinstance(asyncio.run(outcome()), Done)


def test_a_bundle_whose_worker_dies_costs_only_the_sample_that_it_died_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    for number in range(2):
        shape = ops_for_tests.SHAPE if number == 1 else (16, 16, 3)
        Image.fromarray(np.zeros(shape, np.uint8)).save(tmp_path / f"{number}.png")
    index = build_index(LocalStorage(tmp_path))
    deadly = Pipeline((ops.DecodeImage(), UserOp(path="ops_for_tests:die", fields=("image",))))

    async def outcomes() -> dict[int, Outcome]:
        told: dict[int, Outcome] = {}
        arena = Arena(8 * MB)
        pool = WorkerPool(arena, WorkerLimits(count=1), lambda one: told.update({one.ticket: one}))
        pool.open_source(_source(tmp_path, deadly))
        pool.submit([_task(index, arena, sample=number) for number in range(2)])
        running = asyncio.create_task(pool.run())
        try:
            async with asyncio.timeout(60):
                while len(told) < 2:
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return told

    told = asyncio.run(outcomes())
    made, failed = told[1], told[2]
    assert isinstance(made, Done), "it was made before the other, or once more"
    assert isinstance(failed, Failed)
    assert failed.code == "crashed"


@pytest.mark.parametrize(("held_s", "sends"), [(3600.0, [3]), (-1.0, [1, 1, 1])])
def test_outcomes_of_a_bundle_are_told_together_unless_that_holds_them_back_for_long(
    held_s: float, sends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.agent.worker.HELD_S", held_s)
    link = _Link(encode(Bundle(works=tuple(Prove(ticket=n, source=9) for n in range(3)))))
    Worker(link, memoryview(b""), NO_FILES).run()  # type: ignore[arg-type]
    assert [_messages(data) for data in link.sent[1:]] == sends, "first it says that it is ready"


class _Link:
    """A socket that gives what it holds, and remembers what it was to send."""

    def __init__(self, data: bytes) -> None:
        self._given = io.BytesIO(data)
        self.sent: list[bytes] = []

    def recv_into(self, buffer: memoryview) -> int:
        return self._given.readinto(buffer)

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)


def _messages(data: bytes) -> int:
    count = 0
    while data:
        data = data[LENGTH.size + LENGTH.unpack_from(data)[0] :]
        count += 1
    return count


def test_a_worker_reads_derived_files_beside_an_index_that_lies_apart(tmp_path: Path) -> None:
    root, apart = tmp_path / "texts", tmp_path / "apart"
    root.mkdir()
    apart.mkdir()
    (root / "x.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a line"}'))
    index = build_index(LocalStorage(root), side=SideFiles(LocalStorage(apart)))
    message = msgspec.structs.replace(_source(root), index=Located(str(apart), str(tmp_path)))
    files, beside = (_Watched(place.url) for place in places_of(message))
    assert open_preparer(message, files, beside).raw(index.location(0)) == {"text": b"a line"}
    assert [path.rpartition(".")[2] for path in beside.seen] == ["side"]
    assert set(files.seen) == {"x.jsonl.gz"}


class _Watched(LocalStorage):
    """Remembers what was read."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.seen: list[str] = []

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.seen.append(path)
        return super().read(path, offset, length)


def test_a_source_that_is_opened_while_a_task_waits_for_memory_is_known_afterwards(
    dataset: Path,
) -> None:
    ours, theirs = socket.socketpair()
    arena = Arena(4 * MB)
    task = msgspec.structs.replace(_task(Index.load(str(dataset)), arena), extents=())
    later = msgspec.structs.replace(_source(dataset), source=2)
    grown = MoreMemory(ticket=task.ticket, extents=arena.reserve(MB))
    bundle, proof = Bundle(works=(task,)), Bundle(works=(Prove(ticket=9, source=2),))
    with ours, theirs:
        for message in (_source(dataset), bundle, later, grown, proof):
            ours.sendall(encode(message))
        ours.shutdown(socket.SHUT_WR)
        worker = Worker(theirs, memoryview(arena._map), NO_FILES)
        worker.run()
        assert sorted(worker._sources) == [1, 2]
        told = ours.recv(1 << 20, socket.MSG_DONTWAIT)
    assert b"fingerprint" in told


def _source(dataset: Path, pipeline: Pipeline = PLAIN) -> OpenPipeline:
    return OpenPipeline(
        source=1, url=str(dataset), links_within=None, pipeline=pipeline.to_json(),
        allowed_ops=("*",),
    )  # fmt: skip


def _task(index: Index, arena: Arena, sample: int = 0) -> Task:
    return Task(
        ticket=sample + 1,
        source=1,
        location=index.location(sample),
        seed=0,
        epoch=0,
        sample=sample,
        cut=2,
        extents=arena.reserve(MB),
    )
