"""The pool of worker processes, by itself."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import msgspec
import pytest
from client_for_tests import PLAIN, make_dataset

from headrace.agent.arena import Arena
from headrace.agent.roots import Located
from headrace.agent.tasks import Done, OpenPipeline, Outcome, Task, TooLarge
from headrace.agent.worker import open_preparer, places_of
from headrace.agent.workers import WorkerLimits, WorkerPool
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.dataset.side import SideFiles
from headrace.storage.local import LocalStorage

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
        pool.submit(_task(dataset, arena))
        pool.close_source(1)
        running = asyncio.create_task(pool.run())
        try:
            async with asyncio.timeout(60):
                return await told
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    assert isinstance(asyncio.run(outcome()), Done)


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


def _source(dataset: Path) -> OpenPipeline:
    return OpenPipeline(
        source=1, url=str(dataset), links_within=None, pipeline=PLAIN.to_json(), allowed_ops=()
    )


def _task(dataset: Path, arena: Arena) -> Task:
    return Task(
        ticket=1,
        source=1,
        location=Index.load(str(dataset)).location(0),
        seed=0,
        epoch=0,
        sample=0,
        cut=2,
        extents=arena.reserve(MB),
    )
