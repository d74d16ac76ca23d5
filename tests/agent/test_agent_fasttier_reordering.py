"""Long reads in place of scattered ones, with a real engine and no workers."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fasttier_for_tests import SAMPLE_BYTES, make_texts, spec_of, text_of

from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.fasttier.reordering import Reordering
from headrace.agent.fasttier.statistics import FastTierStatistics
from headrace.agent.fasttier.through import fetch
from headrace.agent.registry import Registry
from headrace.core.job import JobSpec
from headrace.core.roster import RosterEntry
from headrace.policy.lookahead_events import FetchBegan, JobRemoved
from headrace.policy.runs import SeekCosts
from headrace.prepare.sample import Preparer
from headrace.transform import ops
from headrace.transform.fingerprint import fingerprint
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.wire.messages import Fingerprint, RegisterJob

TEXT = Pipeline((ops.DecodeText(),))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_texts(tmp_path_factory.mktemp("lake") / "texts", count=640, shards=2)


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that waits in an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class Bench:
    """One job of an engine that foresees and starts nothing by itself."""

    def __init__(self, engine: Engine, registry: Registry, name: str, **options: object) -> None:
        self.engine = engine
        self.name = name
        self._registry = registry
        self.reordering = Reordering(engine, **options)  # type: ignore[arg-type]

    def statistics(self) -> FastTierStatistics:
        assert self.engine.fast.tier is not None
        return self.engine.fast.tier.statistics()

    async def register(self, spec: JobSpec, *, step_time_s: float = 0.0) -> None:
        """Serve a job, or with another pace, as if it had been proven."""
        found = fingerprint(Program(TEXT))
        proof = Fingerprint(versions=found.versions, golden=found.golden)
        message = RegisterJob(
            spec=spec, world=1, cuts={"text": 1}, fingerprint=proof, step_time_s=step_time_s,
            roster=(RosterEntry(name="agent"),),
        )  # fmt: skip
        await self._registry.register(spec.id, message)
        self.engine.jobs[spec.id].proof.settle(proof)
        self.engine.change_mode(self.engine.jobs[spec.id])

    async def until(self, question: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not question():
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[asyncio.Future[None]]:
        going = asyncio.ensure_future(self.reordering.run())
        try:
            yield going
        finally:
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)


@asynccontextmanager
async def bench_of(
    texts: Path, cache: Path, nbytes: int = 8 << 20, **options: object
) -> AsyncIterator[Bench]:
    config = AgentConfig(
        token="t" * 32, roots=(texts,), workers=0, cache=cache, cache_bytes=nbytes, name="agent"
    )
    engine = Engine(config)
    registry = Registry(engine, config, unix_socket=None, weight=lambda: 1)
    spec = spec_of_texts(texts)
    bench = Bench(engine, registry, spec.id, **options)
    try:
        await bench.register(spec)
        yield bench
    finally:
        engine.close()
        registry.close()


def spec_of_texts(texts: Path, *, seed: int = 3) -> JobSpec:
    return msgspec.structs.replace(spec_of(texts, seed=seed), pipeline=TEXT.to_json())


def upcoming(bench: Bench) -> list[int]:
    return [visit.sample for visit in bench.engine.upcoming(bench.name)]


@played
async def test_upcoming_samples_come_by_few_long_reads(texts: Path, tmp_path: Path) -> None:
    async with bench_of(texts, tmp_path, always=True) as bench:
        wanted = upcoming(bench)
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs == 2)
        found = bench.statistics()
        assert found.runs == 2  # one for each file
        assert found.run_samples == 640  # what lies between is needed later in the epoch
        assert found.run_bytes < 1.5 * 640 * SAMPLE_BYTES
        assert upcoming(bench) == wanted  # all may be started again


@played
async def test_copies_from_long_reads_are_the_samples(texts: Path, tmp_path: Path) -> None:
    async with bench_of(texts, tmp_path, always=True) as bench:
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs == 2)
        job, fast = bench.engine.jobs[bench.name], bench.engine.fast
        for number, visit in enumerate(bench.engine.upcoming(bench.name)):
            place = job.open.place(visit.sample)
            errand = fast.begin(number, job, visit, place)
            assert errand is not None
            assert errand.kept is not None
            fetched = fetch(job.preparers[0], place.location, errand, fast.files)
            assert fetched.fields["text"] == text_of(visit.sample)
            fast.end(number, fetched.passage)
        assert bench.statistics().hits == 512


@played
async def test_a_copy_is_given_up_after_its_use_when_others_need_the_room(
    texts: Path, tmp_path: Path
) -> None:
    async with bench_of(texts, tmp_path, nbytes=700_000, always=True) as bench:
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs >= 1)
        found = bench.statistics()
        assert found.used_bytes <= found.budget_bytes < 640 * SAMPLE_BYTES
        assert found.corrupt == 0


@played
async def test_only_ordered_jobs_are_reordered(texts: Path, tmp_path: Path) -> None:
    async with bench_of(texts, tmp_path) as bench, bench.going_on():
        await asyncio.sleep(0.3)
        assert bench.statistics().runs == 0
        bench.engine.set_reordering(frozenset({bench.name}))
        await bench.until(lambda: bench.statistics().runs == 2)


@played
async def test_nothing_is_done_where_nothing_is_gained(texts: Path, tmp_path: Path) -> None:
    solid = SeekCosts(seek_s=0.0, bytes_per_s=1e9)
    async with bench_of(texts, tmp_path, always=True, costs=solid) as bench:
        async with bench.going_on():
            await asyncio.sleep(0.3)
        assert bench.statistics().runs == 0


@played
async def test_long_reads_keep_to_the_jobs_quota(texts: Path, tmp_path: Path) -> None:
    async with bench_of(texts, tmp_path, always=True) as bench:
        bench.engine.bandwidth.set_quotas({bench.name: {"hdd": 500_000.0}})
        begin = bench.engine.clock.now()
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs == 2)
        # the second read waits until the first, of some 800 kB, is paid for
        assert bench.engine.clock.now() - begin > 1.0
        assert bench.engine.books.usage.totals()[bench.name].tiers["hdd"].nbytes > 1_000_000


@played
async def test_a_job_that_waits_for_its_quota_keeps_no_other_from_being_reordered(
    texts: Path, tmp_path: Path
) -> None:
    async with bench_of(texts, tmp_path, always=True) as bench:
        bench.engine.bandwidth.set_quotas({bench.name: {"hdd": 1.0}})
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs == 1)
            other = spec_of_texts(texts, seed=9)
            await bench.register(other)
            await bench.until(lambda: bench.statistics().runs >= 2)
        assert other.id in bench.engine.books.usage.totals()


@played
async def test_a_job_that_goes_while_its_long_read_waits_is_waited_for_no_longer(
    texts: Path, tmp_path: Path
) -> None:
    async with bench_of(texts, tmp_path) as bench:
        bench.engine.bandwidth.set_quotas({bench.name: {"hdd": 1.0}})
        bench.engine.set_reordering(frozenset({bench.name}))
        wanted = upcoming(bench)
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs == 1)
            await bench.until(lambda: bench.engine.bandwidth.holds_back(bench.name))
            bench.engine.set_reordering(frozenset())
            await bench.until(lambda: not bench.engine.bandwidth.holds_back(bench.name))
            assert upcoming(bench) == wanted


@played
async def test_a_file_that_changed_is_left_to_those_who_need_its_samples(tmp_path: Path) -> None:
    texts = make_texts(tmp_path / "texts", count=640, shards=2)
    (tmp_path / "cache").mkdir()
    async with bench_of(texts, tmp_path / "cache", always=True) as bench:
        wanted = upcoming(bench)
        os.utime(texts / "000.tar", ns=(1, 1))
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs_failed >= 1)
            await bench.until(lambda: bench.statistics().runs >= 1)
        assert bench.statistics().run_samples == 320
        await bench.until(lambda: upcoming(bench) == wanted)


@played
async def test_a_job_may_go_while_its_samples_are_brought_over(texts: Path, tmp_path: Path) -> None:
    async with bench_of(texts, tmp_path, always=True) as bench:
        visits = bench.engine.upcoming(bench.name)
        bench.engine.bandwidth.set_quotas({bench.name: {"hdd": 1.0}})
        async with bench.going_on():
            await bench.until(lambda: bench.statistics().runs == 1)
            bench.engine.remove_job(bench.name)
            bench.engine.bandwidth.set_quotas({})
            await asyncio.sleep(0.3)
            assert bench.statistics().runs <= 2
        bench.engine.handle(FetchBegan(job=bench.name, visits=visits))  # nobody knows it any more
        with pytest.raises(KeyError):
            bench.engine.handle(JobRemoved(job=bench.name))


@played
async def test_what_a_long_read_brings_may_push_out_what_it_brings_for_another_job(
    texts: Path, tmp_path: Path
) -> None:
    async with bench_of(texts, tmp_path, nbytes=400_000) as bench:
        # copies are taken in by steps, but a slow job's first may come after a fast one's 30th
        await bench.register(spec_of_texts(texts), step_time_s=0.01)
        await bench.register(spec_of_texts(texts, seed=9), step_time_s=0.4)
        bench.engine.set_reordering(frozenset({bench.name}))
        async with bench.going_on() as going:
            await bench.until(lambda: bench.statistics().runs >= 1 or going.done())
            assert not going.done(), going.exception()
        assert bench.statistics().evicted > 0
        assert bench.statistics().corrupt == 0


@played
async def test_nothing_is_held_back_of_a_job_whose_samples_lie_in_files_of_their_own(
    tmp_path: Path,
) -> None:
    texts, cache = make_texts(tmp_path / "texts", count=64, shards=64), tmp_path / "cache"
    cache.mkdir()
    async with bench_of(texts, cache, always=True) as bench:
        wanted = upcoming(bench)
        async with bench.going_on():
            await asyncio.sleep(0.3)
            assert upcoming(bench) == wanted
        assert bench.statistics().runs == 0


@played
async def test_a_long_read_that_hangs_does_not_keep_the_agent_from_ending(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        begun.set()
        go_on.wait(30)

    monkeypatch.setattr(Preparer, "raw_run", hang)
    async with bench_of(texts, tmp_path, always=True) as bench:
        wanted = upcoming(bench)
        async with bench.going_on():
            await bench.until(begun.is_set)
            begin = time.monotonic()
        assert time.monotonic() - begin < 5
        assert upcoming(bench) == wanted
    go_on.set()
