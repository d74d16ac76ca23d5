"""What one answer may hold, fed with a client that takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client_for_tests import PLAIN, make_dataset
from starlette.types import Message, Send

from headrace.agent import registry
from headrace.agent.answer import RAW_AHEAD, FrameStream, RawSource
from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.jobs import ServedSource
from headrace.agent.raw import ByteBudget, Encoded, RawReader
from headrace.agent.registry import Registry
from headrace.agent.tasks import Done, Failed, Proven, Task
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.dataset.index import Index
from headrace.wire.frames import MAGIC
from headrace.wire.listening import MAX_CONNECTIONS, allow_connections
from headrace.wire.messages import FetchRequest, Fingerprint, RegisterJob
from headrace.wire.serving import Impatient


class CountingReader(RawReader):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def read(self, *given: Any) -> Encoded:
        self.reads += 1
        return await super().read(*given)


class Bench:
    """An agent without workers or sockets that serves one job raw."""

    def __init__(self, dataset: Path, *, workers: int = 0) -> None:
        config = AgentConfig(roots=(dataset.parent,), token="x" * 16, workers=workers)
        index = Index.load(str(dataset))
        self.engine = Engine(config)
        self.registry = Registry(self.engine, config, unix_socket=None, weight=lambda: 1)
        self.reader = CountingReader()
        self.spec = JobSpec(
            sources=(SourceSpec(url=str(dataset), index_digest=index.digest, samples=len(index)),),
            schedule=ScheduleSpec(seed=3, batch_size=6),
            pipeline=PLAIN.to_json(),
        )

    def message(self, golden: str = "x") -> RegisterJob:
        proof = Fingerprint(versions={}, golden={"picture": golden})
        return RegisterJob(
            spec=self.spec, world=2, cuts={"image": 2}, fingerprint=proof, roster=()
        )  # fmt: skip

    async def answer(self, send: Send, samples: Sequence[int]) -> None:
        asked = FetchRequest(
            step=0, rank=0, world=1, samples=tuple(samples), epochs=(0,) * len(samples),
            consumed_step=-1, step_time_s=0.0, wait_s=1.0,
        )  # fmt: skip
        stream = FrameStream(
            self.engine, self.spec.id, asked, RawSource(self.reader, ByteBudget(1 << 30))
        )
        await Impatient(stream, patience_s=0.3)({"type": "http"}, _stays, send)

    def finish(self, task: Task) -> None:
        """Let a task end as if a worker had made a sample of a few bytes."""
        done = Done(
            ticket=task.ticket, cut=2, fields=(), nbytes=8, digest=0, read_s=0.0, transform_s=0.0
        )  # fmt: skip
        self.engine.pool._report(done)


async def _stays() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def _stuck_from(stop: Callable[[Message], bool]) -> Send:
    async def send(message: Message) -> None:
        if stop(message):
            await asyncio.Event().wait()

    return send


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("served") / "photos")


@asynccontextmanager
async def serving(dataset: Path) -> AsyncIterator[Bench]:
    bench = Bench(dataset)
    await bench.registry.register(bench.spec.id, bench.message())
    yield bench
    bench.engine.close()
    bench.reader.close()


def test_a_client_that_takes_nothing_lets_few_encoded_samples_be_read(dataset: Path) -> None:
    async def play() -> None:
        async with serving(dataset) as bench:
            with pytest.RaisesGroup(TimeoutError):
                await bench.answer(_stuck_from(lambda m: "body" in m["type"]), range(20))
            assert 0 < bench.reader.reads <= RAW_AHEAD
            assert bench.engine.request_count == 0

    asyncio.run(play())


@pytest.mark.timeout(20)
def test_a_client_that_does_not_take_the_end_is_given_up(dataset: Path) -> None:
    async def play() -> None:
        async with serving(dataset) as bench:
            ended = _stuck_from(lambda m: m.get("more_body") is False)
            with pytest.raises(TimeoutError):
                await bench.answer(ended, range(3))
            assert bench.engine.request_count == 0

    asyncio.run(play())


def test_a_job_is_transformed_only_if_all_its_ranks_make_the_same_bytes(dataset: Path) -> None:
    async def play() -> None:
        async with serving(dataset) as bench:
            job = bench.engine.jobs[bench.spec.id]
            job.proof.failed, job.proof.fingerprint = "", job.clients[0]
            assert not job.raw_only
            for golden in ("different", "x"):
                await bench.registry.register(bench.spec.id, bench.message(golden))
                assert "do not make the same bytes" in bench.engine.jobs[bench.spec.id].raw_only

    asyncio.run(play())


def test_golden_vectors_that_a_busy_host_could_not_make_are_tried_again_later(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five workers end before one gets through, one more than clients are let wait for."""
    monkeypatch.setattr(registry, "PROOF_RETRY_S", 0.0)
    monkeypatch.setattr(registry, "PROOF_LATER_S", 0.0)
    seen: list[str] = []

    async def play() -> None:
        bench = Bench(dataset, workers=1)
        message = bench.message()

        async def prove(_: ServedSource) -> Proven | Failed:
            seen.append(bench.engine.jobs[bench.spec.id].raw_only)
            if len(seen) <= 5:
                return Failed(ticket=-1, code="crashed", reason="stopped after 60 s")
            return Proven(ticket=-1, fingerprint=message.fingerprint)

        monkeypatch.setattr(bench.engine, "prove", prove)
        running = asyncio.ensure_future(bench.registry.run())
        await bench.registry.register(bench.spec.id, message)
        async with asyncio.timeout(5):
            while bench.engine.jobs[bench.spec.id].raw_only:
                await asyncio.sleep(0)
        running.cancel()

    asyncio.run(play())
    assert len(seen) == 6
    assert seen[-1] == "stopped after 60 s"


def test_short_frames_that_lie_ready_are_sent_together(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PROOF_PATIENCE_S", 0.0)
    tasks: list[Task] = []
    made: set[int] = set()
    sent: list[bytes] = []

    async def keep(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])

    async def play() -> None:
        bench = Bench(dataset, workers=1)
        monkeypatch.setattr(bench.engine.pool, "submit", tasks.extend)
        await bench.registry.register(bench.spec.id, bench.message())
        job = bench.engine.jobs[bench.spec.id]
        job.proof.settle(bench.message().fingerprint)
        bench.engine.change_mode(job)
        first = job.open.schedule.batch(0).samples.tolist()
        while tasks:
            made.update({tasks[0].sample}.intersection(first))
            bench.finish(tasks.pop(0))
        await bench.answer(keep, sorted(made))
        bench.engine.close()
        bench.reader.close()

    asyncio.run(play())
    assert len(made) > 4
    assert b"".join(sent).count(MAGIC) == len([*made, "end"])
    assert len(sent) == len(["samples", "end"])


def test_a_client_that_leaves_holds_no_memory_of_what_it_was_to_have_twice(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PROOF_PATIENCE_S", 0.0)
    tasks: list[Task] = []

    async def play() -> None:
        bench = Bench(dataset, workers=1)
        monkeypatch.setattr(bench.engine.pool, "submit", tasks.extend)
        for run in ("one", "another"):
            bench.spec = msgspec.structs.replace(bench.spec, run=run)
            await bench.registry.register(bench.spec.id, bench.message())
            job = bench.engine.jobs[bench.spec.id]
            job.proof.settle(bench.message().fingerprint)
            bench.engine.change_mode(job)
        made = tasks.pop()
        bench.finish(made)
        with pytest.raises(TimeoutError):
            await bench.answer(
                _stuck_from(lambda m: "body" in m["type"]), (made.sample, made.sample)
            )
        for name in list(bench.engine.jobs):
            bench.engine.remove_job(name)
        while tasks:
            bench.finish(tasks.pop())
        assert bench.engine.queue_statistics().counts["shared"] == 2
        assert bench.engine.queue_statistics().memory_used_bytes == 0
        bench.engine.close()
        bench.reader.close()

    asyncio.run(play())


def test_idle_connections_of_many_ranks_take_no_place_from_requests() -> None:
    assert 4096 <= allow_connections() <= MAX_CONNECTIONS
